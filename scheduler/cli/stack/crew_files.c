/* crew_files.c - the plan of a crew as a file. */
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/replace.h"
#include "scheduler/cli/stack/crew.h"

#define CRASHES 5
#define WITHIN_S 300
#define LOG_BYTES (16 << 20)

static bool read_row(const json_t *row, struct kiln_hand_row *ret)
{
    const char *name, *device;
    int wanted, turn;
    if (json_unpack((json_t *)row, "{s:s, s:s, s:b, s:i}", "name", &name, "device", &device,
                    "wanted", &wanted, "turn", &turn))
        return false;
    ret->wanted = wanted;
    ret->turn = (uint32_t)turn;
    return snprintf(ret->name, sizeof ret->name, "%s", name) < (int)sizeof ret->name &&
           snprintf(ret->device, sizeof ret->device, "%s", device) < (int)sizeof ret->device;
}

int kiln_crew_read(const struct kiln_stack *stack, struct kiln_crew_plan *ret,
                   struct kiln_error *err)
{
    char path[PATH_MAX];
    json_error_t why;
    const char *config = NULL;
    json_t *hands = NULL;
    json_int_t within_s, log_bytes;
    *ret =
        (struct kiln_crew_plan){.crashes = CRASHES, .within_s = WITHIN_S, .log_bytes = LOG_BYTES};
    if (access(kiln_join(path, stack->dir, "crew.json"), F_OK) != 0)
        return 0;
    json_t *plan = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    bool ok = plan && json_unpack(plan, "{s:i, s:I, s:I, s:s, s:o}", "crashes", &ret->crashes,
                                  "within_s", &within_s, "log_bytes", &log_bytes, "config", &config,
                                  "workers", &hands) == 0;
    ok = ok && json_is_array(hands) && json_array_size(hands) <= KILN_CREW_MAX;
    for (size_t i = 0; ok && i < json_array_size(hands); i++)
        ok = read_row(json_array_get(hands, i), &ret->at[ret->count++]);
    if (ok) {
        ret->within_s = within_s;
        ret->log_bytes = log_bytes;
        snprintf(ret->config, sizeof ret->config, "%s", config);
    }
    json_decref(plan);
    return ok ? 0
              : kiln_fail(err, KILN_CORRUPT,
                          "%s is no plan of workers (%s): remove it and start "
                          "them again",
                          path, plan ? "another form" : why.text);
}

int kiln_crew_write(const struct kiln_stack *stack, const struct kiln_crew_plan *plan,
                    struct kiln_error *err)
{
    char path[PATH_MAX];
    json_t *hands = json_array();
    for (int i = 0; i < plan->count; i++) {
        const struct kiln_hand_row *row = &plan->at[i];
        json_array_append_new(hands, json_pack("{s:s, s:s, s:b, s:i}", "name", row->name, "device",
                                               row->device, "wanted", (int)row->wanted, "turn",
                                               (int)row->turn));
    }
    json_t *value = json_pack("{s:i, s:I, s:I, s:s, s:o}", "crashes", plan->crashes, "within_s",
                              (json_int_t)plan->within_s, "log_bytes", (json_int_t)plan->log_bytes,
                              "config", plan->config, "workers", hands);
    int rc = kiln_replace_json(kiln_join(path, stack->dir, "crew.json"), value, err);
    json_decref(value);
    return rc;
}
