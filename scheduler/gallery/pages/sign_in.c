/* sign_in.c - /sign-in and /sign-out: a session for a browser, in exchange for the token. */
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/layout.h"

#define TRY_EVERY_MS 500 /* all clients together: guessing 16 characters takes for ever */

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
                        "type=\"password\" autocomplete=\"current-password\" required></p>"
                        "<button>Sign in</button></form><p>The token is in the file that the "
                        "setting <code>gallery_token_file</code> names.</p></div>");
    kiln_gallery_end(visit);
}

/* One attempt each half second, whoever makes it. */
static bool may_try(struct kiln_gallery_app *app, int64_t now_ms)
{
    int64_t next = atomic_load(&app->next_try_ms);
    return now_ms >= next &&
           atomic_compare_exchange_strong(&app->next_try_ms, &next, now_ms + TRY_EVERY_MS);
}

int kiln_gallery_sign_in(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_gallery_app *app = kiln_gallery_app(visit);
    if (app->access->token[0] == '\0' || visit->by_cookie)
        return kiln_web_redirect(visit, "/", err);
    if (visit->method == KILN_WEB_GET) {
        show_form(visit, NULL);
        return 0;
    }
    const char *token = kiln_web_arg(visit->form, "token");
    if (!may_try(app, visit->now_ms)) {
        visit->reply.status = 429;
        visit->reply.retry_after_s = 1;
        show_form(visit, "Too many attempts. Wait a second and try again.");
        return 0;
    }
    if (!token || !kiln_web_token_matches(app->access, token)) {
        visit->reply.status = 403;
        show_form(visit, "That is not the token of this gallery.");
        return 0;
    }
    char session[KILN_WEB_SESSION_MAX];
    kiln_web_session_make(app->access, visit->now_ms / 1000, session);
    set_cookie(visit, session, KILN_WEB_SESSION_S);
    return kiln_web_redirect(visit, "/", err);
}

int kiln_gallery_sign_out(struct kiln_web_visit *visit, struct kiln_error *err)
{
    set_cookie(visit, "", 0);
    return kiln_web_redirect(visit, "/sign-in", err);
}
