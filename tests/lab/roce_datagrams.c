/* Preloaded before qperf, so that its datagrams go over RoCE, which carries them behind a global route header
 * only: qperf asks for none, as InfiniBand needs none. Both ends are this host's port and its second GID. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>

static void *verb(const char *name)
{
    return dlvsym(RTLD_NEXT, name, "IBVERBS_1.1");
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *) = verb("ibv_query_gid");
    struct ibv_ah *(*create_ah)(struct ibv_pd *, struct ibv_ah_attr *) = verb("ibv_create_ah");
    attr->is_global = 1;
    attr->grh.sgid_index = 1;
    query_gid(pd->context, attr->port_num, 1, &attr->grh.dgid);
    return create_ah(pd, attr);
}
