# The libraries behind src/io's pictures, as one interface library: TercelImages.

pkg_check_modules(TERCEL_TURBOJPEG IMPORTED_TARGET libturbojpeg)
pkg_check_modules(TERCEL_PNG IMPORTED_TARGET libpng)
pkg_check_modules(TERCEL_ZLIB IMPORTED_TARGET zlib) # libpng stands on it; .npz files are deflated with it
if(NOT TERCEL_TURBOJPEG_FOUND OR NOT TERCEL_PNG_FOUND OR NOT TERCEL_ZLIB_FOUND)
  message(FATAL_ERROR "libturbojpeg or libpng is missing (Debian: pkg-config libturbojpeg0-dev libpng-dev). "
                      "`tools/setup` installs them; -DTERCEL_IMAGES=OFF builds without pictures.")
endif()
add_library(TercelImages INTERFACE)
target_link_libraries(TercelImages INTERFACE PkgConfig::TERCEL_TURBOJPEG PkgConfig::TERCEL_PNG PkgConfig::TERCEL_ZLIB)
target_compile_definitions(TercelImages INTERFACE TERCEL_IMAGES=1)
