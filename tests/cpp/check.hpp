// SPDX-License-Identifier: Apache-2.0
// A minimal test framework: cases that print their names, and checks that print their location.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <holdfast.hpp>

struct failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The functions behind the macros are in check.cpp, so a check costs the compiler one call.
[[noreturn]] void fail_check(const char *file, int line, const char *condition);
void check_thrown(const char *file, int line, const char *call, hf_result thrown,
                  hf_result expected, const char *expected_name);
// Runs the call. Returns the result of the holdfast::error that it throws, or HF_OK if it throws
// none.
hf_result thrown_by(const char *file, int line, const std::function<void()> &call);

#define CHECK(condition)                                              \
    do {                                                              \
        if (!(condition)) fail_check(__FILE__, __LINE__, #condition); \
    } while (0)

// The call throws holdfast::error with this result, and a detail.
#define CHECK_THROWS(expected, ...)                \
    check_thrown(__FILE__, __LINE__, #__VA_ARGS__, \
                 thrown_by(__FILE__, __LINE__, [&] { __VA_ARGS__; }), (expected), #expected)

struct world {
    std::string url;
    std::string name; // of a lock that only this case uses
    holdfast::client client;
};

struct test_case {
    const char *name;
    void (*run)(world &);
};

std::vector<test_case> &all_cases();

struct add_case {
    add_case(const char *name, void (*run)(world &));
};

#define CASE(name)                                 \
    static void name(world &);                     \
    static const add_case add_##name(#name, name); \
    static void name([[maybe_unused]] world &w)

// Waits until `ready` returns true. The deadline only bounds a failing test.
void until(const char *what, const std::function<bool()> &ready);

// A thread joined at the end of its scope. A failure in it fails the test.
class worker {
  public:
    explicit worker(std::function<void()> work);
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;
    ~worker();
    void join();

  private:
    std::exception_ptr failure_;
    std::thread thread_;
};

#endif
