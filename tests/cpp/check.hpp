// The least that a test program needs: cases that name themselves, and checks that say where.
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

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition))                                                                    \
            throw failed(__FILE__ ":" + std::to_string(__LINE__) + ": not so: " #condition); \
    } while (0)

// The call throws holdfast::error with this result, and a detail.
#define CHECK_THROWS(expected, ...)                                                           \
    do {                                                                                      \
        hf_result thrown_ = HF_OK;                                                            \
        try {                                                                                 \
            __VA_ARGS__;                                                                      \
        } catch (const holdfast::error &e_) {                                                 \
            thrown_ = e_.result();                                                            \
            CHECK(*e_.detail());                                                              \
        }                                                                                     \
        if (thrown_ != (expected))                                                            \
            throw failed(__FILE__ ":" + std::to_string(__LINE__) + ": " #__VA_ARGS__ " is " + \
                         hf_result_name(thrown_) + ", not " #expected);                       \
    } while (0)

struct world {
    std::string url;
    std::string name; // of a lock that is this case's alone
    holdfast::client client;
};

struct test_case {
    const char *name;
    void (*run)(world &);
};

inline std::vector<test_case> &all_cases() {
    static std::vector<test_case> cases;
    return cases;
}

struct add_case {
    add_case(const char *name, void (*run)(world &)) { all_cases().push_back({name, run}); }
};

#define CASE(name)                                 \
    static void name(world &);                     \
    static const add_case add_##name(#name, name); \
    static void name([[maybe_unused]] world &w)

// A deadline is for giving up, not for timing.
inline void until(const char *what, const std::function<bool()> &ready) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!ready()) {
        if (std::chrono::steady_clock::now() > end) throw failed(std::string("in vain: ") + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// A thread whose failure is the test's, joined at the end of its scope.
class worker {
  public:
    explicit worker(std::function<void()> work)
        : thread_([this, work = std::move(work)] {
              try {
                  work();
              } catch (...) {
                  failure_ = std::current_exception();
              }
          }) {}
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;
    ~worker() {
        if (thread_.joinable()) thread_.join();
    }
    void join() {
        thread_.join();
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    std::exception_ptr failure_;
    std::thread thread_;
};

#endif
