# The libraries that decode pictures.  Those of the library are loaded when they are needed (src/images/formats/library.h): only their
# headers count here.  TercelImages: what the tercel command and the examples link, to read and write pictures and .npz files.

pkg_check_modules(TERCEL_IMAGE_HEADERS libturbojpeg libpng libopenjp2>=2.5 libtiff-4>=4.5 libwebp)
pkg_check_modules(TERCEL_IMAGE_LIBRARIES IMPORTED_TARGET libturbojpeg libpng zlib) # libpng stands on zlib
if(NOT TERCEL_IMAGE_HEADERS_FOUND OR NOT TERCEL_IMAGE_LIBRARIES_FOUND)
  message(FATAL_ERROR "A library for pictures is missing (Debian: pkg-config libturbojpeg0-dev libpng-dev libopenjp2-7-dev "
                      "libtiff-dev libwebp-dev). `tools/setup` installs them; -DTERCEL_IMAGES=OFF builds without pictures.")
endif()
add_library(TercelImages INTERFACE)
target_link_libraries(TercelImages INTERFACE PkgConfig::TERCEL_IMAGE_LIBRARIES)
