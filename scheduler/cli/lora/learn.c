/* learn.c - `kiln lora learn`: the biases of LoRAs (scheduler/router/learn.h) after the votes on
 * pictures whose LoRAs `auto` chose.  Nothing learns by itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/lora/registry.h"
#include "scheduler/router/learn.h"
#include "schemas/room.h"
#include "storage/ledger/lora/ratings.h"

/* A LoRA whose bias is another one than the registry has. */
struct step {
    struct kiln_lora_ratings ratings;
    int bias; /* thousandths */
};

struct plan {
    struct step *at;
    size_t count, room, seen; /* seen: LoRAs of lora_dir, which cannot learn */
};

static int add_step(void *arg, const struct kiln_lora_ratings *row, struct kiln_error *err)
{
    struct plan *plan = arg;
    const struct kiln_ratings own = {row->liked, row->rated};
    const int bias = kiln_learn_bias(own, (struct kiln_ratings){row->pool_liked, row->pool_rated});
    plan->seen += row->seen;
    if (row->seen || bias == (int)lround(1000 * row->bias))
        return 0;
    struct step *at = kiln_room(plan->at, plan->count, &plan->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the ratings of LoRAs");
    plan->at = at;
    at[plan->count++] = (struct step){*row, bias};
    return 0;
}

/* A bias of 0 is left out of the entry. */
static int write_step(struct kiln_lora_registry *registry, const struct step *step,
                      uint64_t *ret_version, struct kiln_error *err)
{
    struct kiln_lora_found found;
    int rc = kiln_lora_registry_find(registry, step->ratings.name, &found, err);
    if (rc)
        return rc;
    (void)json_object_del(found.entry, "bias");
    if (step->bias)
        (void)json_object_set_new(found.entry, "bias", json_real(step->bias / 1000.0));
    rc = kiln_lora_registry_write(registry, found.entry, found.row.id, &found.row.file, false,
                                  ret_version, err);
    kiln_lora_found_release(&found);
    return rc;
}

static int print_step(struct kiln_cli *cli, const struct step *step, uint64_t version)
{
    const struct kiln_lora_ratings *r = &step->ratings;
    if (!cli->json) {
        kiln_print_line("%-22s %+.3f -> %+.3f  +%llu -%llu", r->name, r->bias, step->bias / 1000.0,
                        (unsigned long long)r->liked, (unsigned long long)(r->rated - r->liked));
        return 0;
    }
    json_t *line = json_pack("{s:s, s:f, s:f, s:I, s:I}", "name", r->name, "was", r->bias, "bias",
                             step->bias / 1000.0, "liked", (json_int_t)r->liked, "rated",
                             (json_int_t)r->rated);
    if (version)
        (void)json_object_set_new(line, "version", json_integer((json_int_t)version));
    return kiln_print_json(cli, line);
}

int kiln_lora_learn(struct kiln_cli *cli, const struct kiln_args *args)
{
    const bool dry = kiln_arg(args, "dry-run") != NULL;
    struct kiln_lora_registry registry;
    struct plan plan = {0};
    struct kiln_error err;
    uint64_t version = 0;
    int status = 0;
    if (args->rest_count != 1)
        return kiln_usage(cli, "`kiln lora learn` takes no '%.40s'", args->rest[1]);
    if (kiln_lora_registry_open(cli, false, &registry, &err))
        return kiln_report(cli, &err);
    int rc = kiln_lora_ratings(registry.ledger, kiln_pool(cli), add_step, &plan, &err);
    for (size_t i = 0; i < plan.count && rc == 0 && status == 0; i++) {
        rc = dry ? 0 : write_step(&registry, &plan.at[i], &version, &err);
        status = rc ? 0 : print_step(cli, &plan.at[i], version);
    }
    if (rc == 0 && plan.seen)
        kiln_warn(cli,
                  "left out: %s that only lora_dir has; add the file with `kiln lora add` first",
                  KILN_COUNT(plan.seen, "LoRA"));
    if (rc == 0 && plan.count == 0)
        kiln_say(cli, "nothing to learn: the biases already agree with the votes");
    else if (rc == 0)
        kiln_say(cli, "%s %s", KILN_COUNT(plan.count, "LoRA"),
                 dry ? "would change; nothing is written" : "changed");
    if (rc == 0 && version)
        kiln_say(cli, "registry version %llu", (unsigned long long)version);
    free(plan.at);
    kiln_lora_registry_close(&registry);
    return rc ? kiln_report(cli, &err) : status;
}
