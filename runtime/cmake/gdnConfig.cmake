include(${CMAKE_CURRENT_LIST_DIR}/gdnTargets.cmake)

# libgdn.a is not made by add_library(), so its target is written here. It needs the C library only.
if(NOT TARGET gdn::gdn_static AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/../../libgdn.a)
  get_target_property(gdn_include gdn::gdn INTERFACE_INCLUDE_DIRECTORIES)
  get_filename_component(gdn_libdir ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
  add_library(gdn::gdn_static STATIC IMPORTED)
  set_target_properties(gdn::gdn_static PROPERTIES
    IMPORTED_LOCATION ${gdn_libdir}/libgdn.a
    IMPORTED_LINK_INTERFACE_LANGUAGES C
    INTERFACE_INCLUDE_DIRECTORIES "${gdn_include}"
    INTERFACE_LINK_LIBRARIES "m;pthread;dl")
  unset(gdn_include)
  unset(gdn_libdir)
endif()

# Component `layer`: gdn::layer brings its BLAS; gdn::layer_static is there where a BLAS is found to link.
foreach(gdn_component IN LISTS gdn_FIND_COMPONENTS)
  if(gdn_component STREQUAL "layer" AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/gdnLayerTargets.cmake)
    include(${CMAKE_CURRENT_LIST_DIR}/gdnLayerTargets.cmake)
    if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/gdnLayerStaticTargets.cmake)
      find_package(BLAS QUIET)
      if(BLAS_FOUND AND NOT TARGET gdn::layer_static)
        include(${CMAKE_CURRENT_LIST_DIR}/gdnLayerStaticTargets.cmake)
        set_property(TARGET gdn::layer_static APPEND PROPERTY INTERFACE_LINK_LIBRARIES gdn::gdn_static)
      endif()
    endif()
    set(gdn_layer_FOUND TRUE)
  else()
    set(gdn_${gdn_component}_FOUND FALSE)
    if(gdn_FIND_REQUIRED_${gdn_component})
      set(gdn_FOUND FALSE)
      set(gdn_NOT_FOUND_MESSAGE "this installation of gdn has no component \"${gdn_component}\"")
    endif()
  endif()
endforeach()
unset(gdn_component)
