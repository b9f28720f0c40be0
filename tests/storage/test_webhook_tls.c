/* test_webhook_tls.c - URLs with https: a server is told only if the machine trusts its authority
 * and the certificate is for its name.
 *
 * The servers are real ones, by Python's ssl.  The authority of the test takes the place of the
 * machine's in a mount namespace of the test alone, which is skipped where there may be none.
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/webhook/webhook.h"
#include "tests/support/process.h"

#define MACHINES_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

/* An authority; a certificate of it for localhost, one for another name, and one of nobody. */
static const char make_certificates[] =
    "set -e; new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2';"
    "openssl req -x509 $new -keyout ca.key -out ca.pem -subj /CN=authority;"
    "sign() { openssl req $new -keyout $1.key -out $1.csr -subj /CN=$1;"
    "  echo subjectAltName=DNS:$2 >$1.ext;"
    "  openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
    "    -extfile $1.ext -out $1.pem; };"
    "sign good localhost; sign other other.example;"
    "openssl req -x509 $new -keyout self.key -out self.pem -subj /CN=self"
    "  -addext subjectAltName=DNS:localhost";

/* Three servers, whose ports come in this order in the file `ports`; each request is a line of
 * `told`: its path and its body. */
static const char servers[] =
    "import http.server, os, ssl, threading\n"
    "class Told(http.server.BaseHTTPRequestHandler):\n"
    "    def do_POST(self):\n"
    "        body = self.rfile.read(int(self.headers['Content-Length'])).decode()\n"
    "        with open('told', 'a') as out:\n"
    "            out.write(f'{self.path} {body}\\n')\n"
    "        self.send_response(204)\n"
    "        self.end_headers()\n"
    "    def log_message(self, *args):\n"
    "        pass\n"
    "ports = []\n"
    "for name in ('good', 'other', 'self'):\n"
    "    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "    tls.load_cert_chain(name + '.pem', name + '.key')\n"
    "    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Told)\n"
    "    server.socket = tls.wrap_socket(server.socket, server_side=True,\n"
    "                                    do_handshake_on_connect=False)\n"
    "    server.handle_error = lambda *refused: None\n"
    "    ports.append(str(server.server_port))\n"
    "    threading.Thread(target=server.serve_forever).start()\n"
    "open('ports.new', 'w').write(' '.join(ports))\n"
    "os.rename('ports.new', 'ports')\n";

enum { GOOD, OTHER, SELF, SERVERS };
static int ports[SERVERS];
static pid_t server = -1;

static int start_servers(void **state)
{
    (void)state;
    char command[sizeof make_certificates + 64];
    snprintf(command, sizeof command, "(%s) >openssl.log 2>&1", make_certificates);
    FILE *secret = fopen("secret", "we");
    if (!secret || fputs("a secret\n", secret) < 0 || fclose(secret) || system(command) != 0)
        return -1;
    server = kiln_test_fork();
    if (server == 0) {
        execlp("python3", "python3", "-c", servers, (char *)NULL);
        _exit(127);
    }
    for (int tries = 0; tries < 600; tries++) {
        FILE *file = fopen("ports", "re");
        int read = file ? fscanf(file, "%d %d %d", &ports[GOOD], &ports[OTHER], &ports[SELF]) : 0;
        if (file)
            fclose(file);
        if (read == SERVERS)
            return 0;
        usleep(100000);
    }
    return -1;
}

static int stop_servers(void **state)
{
    (void)state;
    if (server > 0 && kill(server, SIGKILL) == 0)
        waitpid(server, NULL, 0);
    return 0;
}

static int post(const char *host, int port, struct kiln_error *err)
{
    char url[128], hosts[64];
    snprintf(url, sizeof url, "https://%s:%d/hidden", host, port);
    snprintf(hosts, sizeof hosts, "%s:%d", host, port);
    const struct kiln_webhook_message message = {
        .url = url, .delivery = "d", .body = "{}", .hosts = hosts, .secret_file = "secret"};
    int rc =
        KILN_TIMEOUT; /* a starved machine shakes hands slowly: the scheduler would repeat it */
    for (int tries = 0; tries < 20 && rc == KILN_TIMEOUT; tries++)
        rc = kiln_webhook_post(&message, NULL, err);
    return rc;
}

static void refused(const char *host, int port, const char *why)
{
    struct kiln_error err;
    char name[64];
    snprintf(name, sizeof name, "https://%s:%d: ", host, port);
    assert_int_equal(post(host, port, &err), KILN_UNAVAILABLE);
    if (strncmp(err.text, name, strlen(name)) != 0 || !strstr(err.text, why) ||
        strstr(err.text, "hidden"))
        fail_msg("it says: %s", err.text);
    assert_int_equal(access("told", F_OK), -1); /* not a byte of the message left */
}

static void an_authority_that_the_machine_does_not_know_is_refused(void **state)
{
    (void)state;
    refused("localhost", ports[GOOD], "certificate");
    refused("localhost", ports[SELF], "certificate");
}

static bool trust_the_authority(void)
{
    return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("ca.pem", MACHINES_AUTHORITIES, NULL, MS_BIND, NULL) == 0;
}

static void a_trusted_server_is_told_under_its_own_name_alone(void **state)
{
    (void)state;
    char line[64] = "";
    struct kiln_error err;
    if (!trust_the_authority())
        skip();
    refused("localhost", ports[OTHER], "target host name");
    refused("127.0.0.1", ports[GOOD], "target host name"); /* the certificate is for localhost */
    refused("localhost", ports[SELF], "certificate");
    if (post("localhost", ports[GOOD], &err))
        fail_msg("%s", err.text);
    FILE *told = fopen("told", "re");
    assert_non_null(told);
    while (fgets(line, sizeof line, told)) /* once for each try whose answer came too late */
        assert_string_equal(line, "/hidden {}\n");
    assert_string_equal(line, "/hidden {}\n");
    fclose(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_authority_that_the_machine_does_not_know_is_refused),
        cmocka_unit_test(a_trusted_server_is_told_under_its_own_name_alone),
    };
    return cmocka_run_group_tests_name("webhook_tls", tests, start_servers, stop_servers);
}
