// SPDX-License-Identifier: GPL-2.0-only
/*
 * What C++ adds to C, in ring 0 as elsewhere: objects that exist before and after
 * main, exceptions, the library's strings and containers, threads.
 */
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

constexpr int THREADS = 4;
constexpr int ROUNDS = 1000;
constexpr int DEPTH = 20;

struct Counted {
	explicit Counted(const char *name) : name(name) { std::cout << "objects: " << name << " is made" << std::endl; }
	~Counted() { std::cout << "objects: " << name << " is gone" << std::endl; }
	const char *name;
};

struct Undone {
	explicit Undone(int &count) : count(count) {}
	~Undone() { count++; }
	int &count;
};

static Counted global("a global");

/* Each call on the way has an object that the exception destroys. */
static void descend(int left, int &undone)
{
	Undone here(undone);

	if (left == 0)
		throw std::out_of_range("too deep");
	descend(left - 1, undone);
}

static std::string caught()
{
	std::ostringstream text;
	int undone = 0;

	try {
		descend(DEPTH, undone);
	} catch (const std::out_of_range &error) {
		text << error.what() << ", " << undone << " undone";
	}
	try {
		std::vector<int>().at(1);
	} catch (const std::exception &) {
		text << ", " << 1.5;
	}
	return text.str();
}

static Counted &first_used()
{
	static Counted one("a local");

	return one;
}

static int counted_by_threads()
{
	std::vector<std::thread> threads;
	std::map<std::string, int> counts;
	std::mutex lock;

	for (int i = 0; i < THREADS; i++)
		threads.emplace_back([&, i] {
			first_used();
			for (int round = 0; round < ROUNDS; round++) {
				std::lock_guard<std::mutex> locked(lock);
				counts["thread " + std::to_string(i % 2)]++;
			}
		});
	for (auto &thread : threads)
		thread.join();
	return counts["thread 0"] + counts["thread 1"];
}

int main(int argc, char **argv)
{
	int counted = counted_by_threads();
	unsigned short cs;

	asm volatile("mov %%cs, %0" : "=r" (cs));
	std::cout << "objects: in ring " << (cs & 3) << " with " << argv[argc - 1] << std::endl;
	std::cout << "objects: " << caught() << ", " << counted << " by threads" << std::endl;
}
