/* Closes the performance counters that it finds among its descriptors, as programs close all that they do not know (but
 * then an MPI may end, too), and puts in the place of each by turns a pipe with nothing to read and a file. Says after
 * MPI_Finalize how many there were and whether anybody has read of the file. With the argument "keeps" it leaves them. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 256 };

int main(int argc, char **argv)
{
    int places[MOST], found = 0, read_from = 0, ends[2], file;
    MPI_Init(&argc, &argv);
    for (int place = 3; place < MOST; place++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", place);
        if (readlink(path, target, sizeof target - 1) > 0 && strcmp(target, "anon_inode:[perf_event]") == 0)
            places[found++] = place;
    }
    int put = argc > 1 && strcmp(argv[1], "keeps") == 0 ? 0 : found;
    int files_first = argc > 1 && strcmp(argv[1], "file") == 0;
    for (int number = 0; number < put; number++) {
        file = open(argv[0], O_RDONLY);
        if (file < 0 || pipe(ends) != 0)
            return 3;
        dup2(number % 2 == files_first ? ends[0] : file, places[number]);
    }
    MPI_Finalize();
    for (int number = 0; number < put; number++)
        if (number % 2 != files_first)
            read_from += lseek(places[number], 0, SEEK_CUR) != 0;
    printf("%d counters, %d files read\n", found, read_from);
    return 0;
}
