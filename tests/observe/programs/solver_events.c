#include "solver_events.h"

#include <sde_lib.h>

static long long iterations;
static double last;
static void *products, *residuals, *raw, *decades;

/* Of a type that only this library can compare. */
typedef struct {
    double value;
    int iteration;
} entry;

static int by_value(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

static long long squared(void *number)
{
    return *(long long *)number * *(long long *)number;
}

void begin_events(void)
{
    void *library = papi_sde_init("Solver");
    papi_sde_register_counter(library, "iterations", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_long_long, &iterations);
    papi_sde_describe_counter(library, "iterations", "iterations so far");
    papi_sde_register_counter(library, "last", PAPI_SDE_RO | PAPI_SDE_INSTANT, PAPI_SDE_double, &last);
    papi_sde_register_counter_cb(library, "squared", PAPI_SDE_RO | PAPI_SDE_INSTANT, PAPI_SDE_long_long, squared,
                                 &iterations);
    papi_sde_create_counter(library, "products", PAPI_SDE_DELTA, &products);
    papi_sde_add_counter_to_group(library, "iterations", "work", PAPI_SDE_SUM);
    papi_sde_add_counter_to_group(library, "products", "work", PAPI_SDE_SUM);
    papi_sde_create_recorder(library, "residual", sizeof(double), papi_sde_compare_double, &residuals);
    papi_sde_create_recorder(library, "raw", sizeof(entry), by_value, &raw);
    papi_sde_create_counting_set(library, "decades", &decades);
}

void tell(double residual)
{
    entry whole = {residual, (int)iterations};
    long long decade = 0;
    for (double bound = 0.1; bound > residual && decade < 15; bound /= 10)
        decade++;
    iterations++;
    last = residual;
    papi_sde_inc_counter(products, 3);
    papi_sde_record(residuals, sizeof residual, &residual);
    papi_sde_record(raw, sizeof whole, &whole);
    papi_sde_counting_set_insert(decades, sizeof decade, sizeof decade, &decade, 1);
}
