// SPDX-License-Identifier: Apache-2.0
// Tests the C++ header on a store: PROGRAM URL
#include "check.hpp"

static bool run_case(const test_case &test, const char *url) {
    try {
        world w{url, std::string("cpp:") + test.name, holdfast::client(url)};
        test.run(w);
        std::printf("ok    %s\n", test.name);
        return true;
    } catch (const std::exception &e) {
        std::printf("FAIL  %s\n      %s\n", test.name, e.what());
        return false;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: %s URL\n", argv[0]), 64;
    int failures = 0;
    for (const test_case &test : all_cases()) failures += !run_case(test, argv[1]);
    std::printf("%zu cases, %d failed, C++ %ld\n", all_cases().size(), failures, __cplusplus);
    return all_cases().empty() || failures;
}
