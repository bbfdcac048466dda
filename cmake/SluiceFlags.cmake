# Warnings are errors in every build; the sanitizers come by preset.
set(SLUICE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Werror)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${SLUICE_WARNINGS}>")
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Werror>")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports a maybe-uninitialised frame member in correct coroutines (GCC bug 104828 family)
    # and false array bounds inside libstdc++ at -O2 and above.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-restrict>")
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g -fno-omit-frame-pointer")

if(SLUICE_SANITIZE)
    add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${SLUICE_SANITIZE})
    if(SLUICE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-Wno-tsan)
    endif()
endif()
if(SLUICE_FUZZ)
    # Coverage everywhere, a fuzzing main only in the targets themselves.
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
