/* sign_in.c - /sign-in and /sign-out: a session for a browser, in exchange for the token. */
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/web/attempts.h"
#include "schemas/clock.h"

static void set_cookie(struct kiln_web_visit *visit, const char *value, int64_t seconds)
{
    snprintf(visit->reply.cookie, sizeof visit->reply.cookie,
             KILN_WEB_COOKIE "=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s", value,
             (long long)seconds, visit->secure ? "; Secure" : "");
}

static void show_form(struct kiln_web_visit *visit, const char *complaint)
{
    struct kiln_text *out = &visit->reply.body;
    visit->reply.cache = "no-store";
    kiln_gallery_begin(visit, &(struct kiln_gallery_page_head){.title = "Sign in", .bare = true});
    kiln_text_puts(out, "<div class=\"say\"><h1>Sign in</h1>");
    if (complaint)
        kiln_text_printf(out, "<p class=\"bad\" role=\"alert\">%s</p>", complaint);
    kiln_text_puts(out, "<form class=\"sign-in\" action=\"/sign-in\" method=\"post\">"
                        "<p><label for=\"token\">Token</label><input id=\"token\" name=\"token\" "
                        "type=\"password\" autocomplete=\"current-password\" autofocus "
                        "required></p>"
                        "<button>Sign in</button></form><p>The token is in the file that the "
                        "setting <code>gallery_token_file</code> names, that of people who may "
                        "make pictures in <code>gallery_producer_token_file</code>.</p></div>");
    kiln_gallery_end(visit);
}

/* The highest right that a token of this gallery gives. */
static enum kiln_web_right highest(const struct kiln_web_access *access)
{
    return access->tokens[KILN_WEB_PRODUCER][0] ? KILN_WEB_PRODUCER
           : access->tokens[KILN_WEB_READER][0] ? KILN_WEB_READER
                                                : KILN_WEB_NOBODY;
}

int kiln_gallery_sign_in(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_web_access *access = kiln_gallery_app(visit)->access;
    const char *token = kiln_web_arg(visit->form, "token");
    const int64_t now_ms = kiln_clock_ms();
    if (visit->right >= highest(access))
        return kiln_web_redirect(visit, "/", err);
    if (visit->method == KILN_WEB_GET) {
        show_form(visit, NULL);
        return 0;
    }
    if (!kiln_web_attempt_allowed(access->attempts, visit->client, now_ms,
                                  &visit->reply.retry_after_s)) {
        visit->reply.status = 429;
        show_form(visit, "Too many wrong tokens. Wait some seconds and try again.");
        return 0;
    }
    enum kiln_web_right right = token ? kiln_web_token_right(access, token) : KILN_WEB_NOBODY;
    kiln_web_attempt_note(access->attempts, visit->client, right != KILN_WEB_NOBODY, now_ms);
    if (right == KILN_WEB_NOBODY) {
        visit->reply.status = 403;
        show_form(visit, "That is not the token of this gallery.");
        return 0;
    }
    char session[KILN_WEB_SESSION_MAX];
    kiln_web_session_make(access, right, visit->now_ms / 1000, session);
    set_cookie(visit, session, KILN_WEB_SESSION_S);
    return kiln_web_redirect(visit, "/", err);
}

int kiln_gallery_sign_out(struct kiln_web_visit *visit, struct kiln_error *err)
{
    set_cookie(visit, "", 0);
    return kiln_web_redirect(visit, "/sign-in", err);
}
