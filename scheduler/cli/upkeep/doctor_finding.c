/* doctor_finding.c - the list of findings, and what several checks use. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/reader.h"

#define ROOM_WARNING (1ull << 30)
#define ROOM_BAD (100ull << 20)
#define FILES_WARNING 20000 /* a picture is four files and two directories */
#define FILES_BAD 1000

void kiln_finding(struct kiln_doctor *doctor, const char *check, enum kiln_verdict verdict,
                  const char *todo, const char *fmt, ...)
{
    static const char *const names[] = {"ok", "warning", "bad"};
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31m"};
    char text[KILN_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if ((int)verdict > doctor->worst)
        doctor->worst = (int)verdict;
    json_array_append_new(doctor->findings,
                          json_pack("{s:s, s:s, s:s, s:s}", "check", check, "verdict",
                                    names[verdict], "found", text, "do", todo));
    if (doctor->cli->json)
        return;
    bool color = doctor->cli->color_out;
    struct kiln_text line = {0}, shown = {0};
    kiln_text_printf(&line, "%s%-8s%s %-10s ", color ? colors[verdict] : "", names[verdict],
                     color ? "\033[0m" : "", check);
    kiln_text_safe(&line, text); /* it quotes names of workers, keys and batches */
    kiln_text_fit(&shown, line.failed ? text : line.at, doctor->cli->columns, 20);
    puts(shown.failed ? text : shown.at);
    kiln_text_release(&line);
    kiln_text_release(&shown);
    if (todo[0])
        kiln_print_fit(doctor->cli, 23, "%20s-> %s", "", todo);
}

int kiln_doctor_ask(struct kiln_doctor *doctor, struct kiln_ledger **ret, struct kiln_error *err)
{
    struct kiln_ledger *session = NULL;
    int rc = 0;
    *ret = NULL;
    if (!doctor->reader)
        rc = kiln_reader_open(doctor->cli->config, "kiln doctor", 1, 0, &doctor->reader, err);
    if (rc == 0)
        rc = kiln_reader_take(doctor->reader, &session, err);
    if (rc)
        return rc;
    rc = kiln_ledger_check(session, err);
    if (rc)
        kiln_reader_give(doctor->reader, session);
    else
        *ret = session;
    return rc;
}

void kiln_doctor_room(struct kiln_doctor *doctor, const char *check, const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0) {
        kiln_finding(doctor, check, VERDICT_WARNING, "", "statvfs %s: %s", path, strerror(errno));
        return;
    }
    uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t files = fs.f_files ? fs.f_favail : FILES_WARNING; /* 0: not counted there */
    enum kiln_verdict verdict = bytes < ROOM_BAD || files < FILES_BAD           ? VERDICT_BAD
                                : bytes < ROOM_WARNING || files < FILES_WARNING ? VERDICT_WARNING
                                                                                : VERDICT_OK;
    const char *todo = verdict == VERDICT_OK ? "" : KILN_FREE_SPACE;
    if (files < FILES_WARNING)
        kiln_finding(doctor, check, verdict, todo, "%s and %" PRIu64 " files free at %s",
                     KILN_BYTES(bytes), files, path);
    else
        kiln_finding(doctor, check, verdict, todo, "%s free at %s", KILN_BYTES(bytes), path);
}
