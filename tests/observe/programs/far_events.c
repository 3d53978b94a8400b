/* far_events [LIBRARY]: solver_events, loaded when the program runs and for itself alone; without it, events as of a
 * library that uses libsde only where it is there, and it is not. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#pragma weak papi_sde_init
#pragma weak papi_sde_create_counter
#pragma weak papi_sde_describe_counter
#pragma weak papi_sde_inc_counter
#pragma weak papi_sde_reset_counter
#pragma weak papi_sde_get_counter_handle
void *papi_sde_init(const char *library);
int papi_sde_create_counter(void *library, const char *name, int mode, void **counter);
int papi_sde_describe_counter(void *library, const char *name, const char *description);
int papi_sde_inc_counter(void *counter, long long increment);
int papi_sde_reset_counter(void *counter);
void *papi_sde_get_counter_handle(void *library, const char *name);

static void without(void)
{
    void *counter = NULL;
    if (papi_sde_init == NULL)
        return;
    void *library = papi_sde_init("Weak");
    papi_sde_create_counter(library, "counter", 0, &counter);
    papi_sde_describe_counter(library, "counter", "of nothing");
    papi_sde_inc_counter(counter, 1);
    papi_sde_reset_counter(papi_sde_get_counter_handle(library, "counter"));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc == 1) {
        without();
    } else {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        void (*begin)(void) = dlsym(library, "begin_events"), (*tell)(double) = dlsym(library, "tell");
        begin();
        for (int i = 1; i <= 10; i++)
            tell(1. / i);
    }
    MPI_Finalize();
    puts("done");
    return 0;
}
