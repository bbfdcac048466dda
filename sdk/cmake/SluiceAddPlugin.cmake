# sluice_add_plugin(ID [TARGET_MINOR n] SOURCES files... [LIBS targets...])
#
# One loadable plugin file, ID.so: one exported symbol, everything else hidden, never unmapped, no
# undefined symbol of the gateway. Works the same inside this tree and against an installed SDK.
# In the tree the file lands in SLUICE_PLUGIN_OUTPUT_DIR; `install` puts it under
# SLUICE_PLUGIN_SUBDIR (default sluice/plugins) of the library directory.
# -z,defs is left out under a sanitizer: its runtime is resolved from the executable.
function(sluice_add_plugin name)
    cmake_parse_arguments(P "" "TARGET_MINOR" "SOURCES;LIBS" ${ARGN})
    if(NOT P_SOURCES)
        message(FATAL_ERROR "sluice_add_plugin(${name}): SOURCES is missing")
    endif()
    if(NOT DEFINED P_TARGET_MINOR)
        set(P_TARGET_MINOR 0)
    endif()
    set(map "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map")

    add_library(${name} MODULE ${P_SOURCES})
    target_link_libraries(${name} PRIVATE Sluice::sdk ${P_LIBS})
    target_compile_features(${name} PRIVATE cxx_std_20)
    target_compile_definitions(${name} PRIVATE SLUICE_TARGET_MINOR=${P_TARGET_MINOR})
    set_target_properties(${name} PROPERTIES
        PREFIX "" SUFFIX ".so"
        CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
        CXX_EXTENSIONS OFF BUILD_RPATH_USE_ORIGIN OFF SKIP_BUILD_RPATH ON
        LINK_DEPENDS "${map}")
    if(SLUICE_PLUGIN_OUTPUT_DIR)
        set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${SLUICE_PLUGIN_OUTPUT_DIR}")
    endif()
    target_link_options(${name} PRIVATE "LINKER:--version-script=${map}"
        LINKER:-z,nodelete LINKER:-z,relro LINKER:-z,now LINKER:--build-id)

    get_directory_property(options COMPILE_OPTIONS)
    string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
    if(NOT "${options} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}" MATCHES "-fsanitize=")
        target_link_options(${name} PRIVATE LINKER:-z,defs)
    endif()

    include(GNUInstallDirs)
    if(NOT SLUICE_PLUGIN_SUBDIR)
        set(SLUICE_PLUGIN_SUBDIR sluice/plugins)
    endif()
    install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${SLUICE_PLUGIN_SUBDIR})

    if(TARGET sluice-plugin-check)
        set(checker $<TARGET_FILE:sluice-plugin-check>)
    else()
        find_program(SLUICE_PLUGIN_CHECK sluice-plugin-check)
        set(checker ${SLUICE_PLUGIN_CHECK})
    endif()
    if(checker)
        add_test(NAME ${name}.conformance COMMAND ${checker} --level 5 $<TARGET_FILE:${name}>)
    endif()
endfunction()
