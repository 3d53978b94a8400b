// Allocations of C++ and atomic operations: prints what the accesses must have come to, by address.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

struct alignas(64) Counters {
    std::atomic<unsigned char> small{0};
    std::atomic<unsigned short> two{0};
    std::atomic<int> four{0};
    std::atomic<long> eight{0};
};

int main()
{
    const int number = 1024, times = 1000;
    auto *array = new double[number];
    for (int each = 0; each < number; each++)
        array[each] = each;
    double sum = 0;
    for (int time = 0; time < 3; time++)
        for (int each = 0; each < number; each++)
            sum += array[each];
    auto *copy = new float[4096];
    std::memcpy(copy, array, 8 * number);
    auto *counters = new Counters;
    unsigned __int128 wide = 0;
    auto *place = &wide;
    auto work = [&] {
        for (int time = 0; time < times; time++) {
            counters->small++;
            counters->two--;
            counters->four |= 1 << time % 31;
            counters->eight += 3;
            for (long old = counters->eight.load(); !counters->eight.compare_exchange_weak(old, old + 1);)
                ;
            __atomic_fetch_add(place, (unsigned __int128)1 << 64 | 1, __ATOMIC_SEQ_CST);
        }
    };
    std::thread first(work), second(work);
    first.join();
    second.join();
    long expected = 2 * times;
    bool right = counters->small == (unsigned char)expected && counters->two == (unsigned short)-expected &&
                 counters->four == 0x7fffffff && counters->eight == 4 * expected &&
                 wide == ((unsigned __int128)expected << 64 | (unsigned __int128)expected);
    std::printf("%p %p %p %s %.0f\n", (void *)array, (void *)copy, (void *)&counters->four,
                right ? "right" : "wrong", sum);
    delete[] array;
    delete[] copy;
    delete counters;
}
