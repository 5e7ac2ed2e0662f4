// SPDX-License-Identifier: Apache-2.0
// Distributed locks with the guards of the standard library.
//
//     scoped [URL [NAME]]        scoped redis://localhost accounts
#include <holdfast.hpp>

#include <iostream>
#include <mutex>
#include <shared_mutex>

using namespace std::chrono_literals;

// Two accounts at once: std::scoped_lock locks both, in an order that cannot deadlock.
static void transfer(holdfast::mutex &from, holdfast::mutex &to) {
    std::scoped_lock both(from, to);
    std::cout << "moving money under tokens " << from.fence() << " and " << to.fence() << "\n";
    from.check(); // throws if the lock was lost, because then the rest must not happen
    to.check();
    std::cout << "done\n";
}

// Readers share, and a wait may have a timeout.
static void report(holdfast::shared_mutex &books) {
    std::shared_lock reading(books, 5s);
    if (!reading) {
        std::cout << "another holder is writing; no report today\n";
        return;
    }
    std::cout << "reading " << books.name() << "\n";
}

// A hold has more functions: release(), for example, reports whether the lock was lost.
static void close_the_books(holdfast::client &client, const std::string &name) {
    holdfast::options how;
    how.wait = 5s;
    how.on_lost = [] { std::cerr << "lost: stop writing\n"; };
    holdfast::hold hold = client.acquire(name, how);
    std::cout << "closing the books, token " << hold.fence() << "\n";
    hold.release();
}

int main(int argc, char **argv) {
    const std::string url = argc > 1 ? argv[1] : "memory:";
    const std::string name = argc > 2 ? argv[2] : "accounts";
    try {
        holdfast::client client(url);
        holdfast::mutex ada(client, name + ":ada"), bea(client, name + ":bea");
        holdfast::shared_mutex books(client, name);
        transfer(ada, bea);
        report(books);
        close_the_books(client, name);
    } catch (const holdfast::error &e) {
        std::cerr << "scoped: " << e.what() << "\n";
        return 1;
    }
    return 0;
}
