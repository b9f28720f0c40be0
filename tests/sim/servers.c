/* servers.c - requests on their way, and what happens to them when a server does. */
#include "tests/sim/servers.h"

#include <stdlib.h>

#include "tests/sim/system.h"

struct sim_fleet sim_fleet;
void (*sim_on_commit)(const struct kiln_commit *commit, bool ours);

struct sim_request {
    struct sim_server *server;
    void (*run)(void *arg);
    void (*release)(void *arg);
    void *arg;
    uint32_t life;
    int owners; /* the sender, and whatever timer is to come */
    bool answered, lost_request, lost_answer, given_up;
    enum sim_answer answer;
    struct sim_request *next; /* among the frozen */
};

int64_t sim_server_ms(const struct sim_server *server)
{
    return (SIM_EPOCH_S * (int64_t)SIM_S + sim_now() + server->wall_ahead) / SIM_MS;
}

static void disown(struct sim_request *request)
{
    if (--request->owners > 0)
        return;
    if (request->release)
        request->release(request->arg);
    free(request);
}

void sim_request_end(struct sim_request *request)
{
    if (request)
        disown(request);
}

static int64_t travel(const struct sim_server *server)
{
    return sim_between(server->quick_us, server->lazy_us);
}

static void come_back(void *arg)
{
    struct sim_request *request = arg;
    if (request->life != request->server->life || request->lost_answer)
        request->answer = SIM_CUT;
    request->answered = true;
    sim_wake(request, true);
    disown(request);
}

static void arrive(void *arg)
{
    struct sim_request *request = arg;
    struct sim_server *server = request->server;
    if (server->hung) {
        request->next = server->frozen;
        server->frozen = request;
        return;
    }
    bool dead = server->down || request->life != server->life || request->lost_request;
    bool forgotten = request->given_up && !request->release;
    if (dead)
        request->answer = SIM_CUT;
    else if (!forgotten)
        request->run(request->arg);
    sim_at(sim_now() + travel(server), come_back, request);
}

enum sim_answer sim_send(struct sim_server *server, void (*run)(void *arg), void *arg,
                         void (*release)(void *arg), int64_t limit_us, struct sim_request **ret)
{
    const struct sim_weather *weather = &server->weather;
    struct sim_request *request = calloc(1, sizeof *request);
    if (!request)
        abort();
    *request = (struct sim_request){.server = server,
                                    .run = run,
                                    .release = release,
                                    .arg = arg,
                                    .life = server->life,
                                    .owners = 2,
                                    .lost_request = sim_chance(weather->lose_request),
                                    .lost_answer = sim_chance(weather->lose_answer)};
    int64_t slow = sim_chance(weather->slow) ? sim_between(0, limit_us * 5 / 4) : 0;
    int64_t until = sim_now() + limit_us;
    sim_at(sim_now() + travel(server) + slow, arrive, request);
    while (!request->answered && sim_now() < until)
        (void)sim_wait(request, until);
    enum sim_answer answer = request->answered ? request->answer : SIM_LATE;
    /* A server may be at the very end of its work when its client gives up. */
    if (!request->answered && !release && !server->down && sim_chance(500) &&
        request->answer == SIM_ANSWERED && !request->lost_request)
        run(arg);
    request->given_up = !request->answered;
    if (ret)
        *ret = request;
    else
        disown(request);
    return answer;
}

/* --- servers --------------------------------------------------------------------------------- */
static void thaw(struct sim_server *server)
{
    struct sim_request *at = server->frozen;
    server->frozen = NULL;
    while (at) {
        struct sim_request *next = at->next;
        sim_at(sim_now() + travel(server), arrive, at);
        at = next;
    }
}

void sim_server_crash(struct sim_server *server)
{
    server->down = true;
    server->hung = false;
    server->life++;
    thaw(server);
}

void sim_server_start(struct sim_server *server)
{
    server->down = false;
}

void sim_server_hang(struct sim_server *server, bool hung)
{
    if (server->hung && !hung) {
        server->hung = false;
        thaw(server);
    }
    server->hung = hung && !server->down;
}
