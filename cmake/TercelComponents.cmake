# Components: what a build may leave out.  Sources see TERCEL_NAME as 1 or 0, and the files of a component that is off are not built.

option(TERCEL_IMAGES "ImageDecoder, and pictures in the tercel command and the examples (libjpeg-turbo, libpng, libtiff, ...)" ON)

# Of each component: the sources that are it, and those that stand in their place.
set(TERCEL_IMAGES_SOURCES "/images/formats/")
set(TERCEL_IMAGES_INSTEAD "/images/left_out\\.c$")

set(TERCEL_LEFT_OUT)
foreach(component IMAGES)
  if(TERCEL_${component})
    list(APPEND TERCEL_LEFT_OUT ${TERCEL_${component}_INSTEAD})
  else()
    list(APPEND TERCEL_LEFT_OUT ${TERCEL_${component}_SOURCES})
  endif()
  target_compile_definitions(TercelOwn INTERFACE TERCEL_${component}=$<BOOL:${TERCEL_${component}}>)
endforeach()
