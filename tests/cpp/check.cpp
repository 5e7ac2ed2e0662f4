// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

[[noreturn]] static void fail_at(const char *file, int line, const std::string &what) {
    throw failed(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

void fail_check(const char *file, int line, const char *condition) {
    fail_at(file, line, std::string("is false:  ") + condition);
}

hf_result thrown_by(const char *file, int line, const std::function<void()> &call) {
    try {
        call();
    } catch (const holdfast::error &e) {
        if (!*e.detail()) fail_check(file, line, "*e.detail()");
        return e.result();
    }
    return HF_OK;
}

void check_thrown(const char *file, int line, const char *call, hf_result thrown,
                  hf_result expected, const char *expected_name) {
    if (thrown == expected) return;
    fail_at(file, line,
            std::string(call) + " is " + hf_result_name(thrown) + ", not " + expected_name);
}

std::vector<test_case> &all_cases() {
    static std::vector<test_case> cases;
    return cases;
}

add_case::add_case(const char *name, void (*run)(world &)) {
    all_cases().push_back({name, run});
}

void until(const char *what, const std::function<bool()> &ready) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!ready()) {
        if (std::chrono::steady_clock::now() > end)
            throw failed(std::string("timed out:  ") + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

worker::worker(std::function<void()> work)
    : thread_([this, work = std::move(work)] {
          try {
              work();
          } catch (...) {
              failure_ = std::current_exception();
          }
      }) {}

worker::~worker() {
    if (thread_.joinable()) thread_.join();
}

void worker::join() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
}
