/* SPDX-License-Identifier: Apache-2.0 */
/* etcd over https with certificates of the test's own: trusted or not, with a client's certificate or none, expired. */
#include "etcd_server.h"

#include "support/skip.h"

static struct etcd_server server;
static bool is_ready;
static char endpoint[64];

static void path_of(char *path, const char *name) {
    snprintf(path, 128, "%s/%s", server.folder, name);
}

/* An authority, a certificate for the server, one for a client, and one for a client that has expired. */
static bool certificates_make(void) {
    char command[4096];
    const char *folder = server.folder;

    snprintf(
        command, sizeof command,
        "cd %s && exec >log 2>&1 && set -e && "
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem && "
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=stranger -keyout other.key -out "
        "other.pem && "
        "printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext && "
        "for who in server client expired; do "
        "openssl req -newkey rsa:2048 -nodes -subj /CN=$who -keyout $who.key -out $who.csr; days=2; "
        "[ $who = expired ] && days=-1; "
        "openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days $days -extfile ext "
        "-out $who.pem || "
        "openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 0 -extfile ext -out "
        "$who.pem; done",
        folder);
    return system(command) == 0;
}

static bool tls_server_start(void) {
    char peer[64];
    char cluster[80];
    char data[128];
    char certificate[128];
    char key[128];
    char ca[128];

    server.port = port_free();
    server.peer_port = port_free();
    snprintf(endpoint, sizeof endpoint, "https://127.0.0.1:%u", server.port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%u", server.peer_port);
    snprintf(cluster, sizeof cluster, "default=%s", peer);
    path_of(data, "data");
    path_of(certificate, "server.pem");
    path_of(key, "server.key");
    path_of(ca, "ca.pem");
    server.pid = fork();
    if (server.pid == 0) {
        int null = open("/dev/null", O_RDWR);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, 1);
        dup2(null, 2);
        execlp("etcd", "etcd", "--data-dir", data, "--listen-client-urls", endpoint,
               "--advertise-client-urls", endpoint, "--listen-peer-urls", peer,
               "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, "--cert-file",
               certificate, "--key-file", key, "--trusted-ca-file", ca, "--client-cert-auth", (char *)NULL);
        _exit(127);
    }
    for (unsigned i = 0; i < 200; i++) {
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons(server.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int how;
        bool is_there = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

        close(fd);
        if (is_there) {
            return true;
        }
        if (waitpid(server.pid, &how, WNOHANG) == server.pid) {
            server.pid = 0;
            return false;
        }
        usleep(50000);
    }
    return false;
}

static void setting(const char *variable, const char *name) {
    char path[128];

    path_of(path, name != NULL ? name : "");
    if (name != NULL) {
        setenv(variable, path, 1);
    } else {
        unsetenv(variable);
    }
}

static nixl_status_t send_with(const char *ca, const char *certificate, const char *key, uint64_t wait_ms) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct side_of_test a;
    char words[1024];
    nixl_status_t status;

    if (!is_ready) {
        test_skip("etcd or openssl is not there (Debian: etcd-server, openssl)");
    }
    setting("NIXL_ETCD_CA", ca);
    setting("NIXL_ETCD_CERT", certificate);
    setting("NIXL_ETCD_KEY", key);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    options.wait_ms = wait_ms;
    status = nixl_metadata_send(a.agent, &options);
    snprintf(words, sizeof words, "%s", nixl_error());
    side_end(&a);
    error_set(words);
    return status;
}

static void with_the_right_certificates_it_works(void **state) {
    assert_status(send_with("ca.pem", "client.pem", "client.key", 15000), NIXL_SUCCESS);
}

static void a_server_that_is_not_trusted_gets_nothing(void **state) {
    assert_int_equal(send_with("other.pem", "client.pem", "client.key", 600), NIXL_ERR_CANCELED);
    assert_error("certificate");
}

static void without_a_certificate_or_with_an_expired_one_nobody_is_let_in(void **state) {
    assert_int_equal(send_with("ca.pem", NULL, NULL, 600), NIXL_ERR_CANCELED);
    assert_error("etcd at https://");
    assert_error("certificate");
    assert_int_equal(send_with("ca.pem", "expired.pem", "expired.key", 600), NIXL_ERR_CANCELED);
    assert_error("certificate");
    assert_error("etcd at https://");
}

static void a_certificate_that_is_not_there_is_told(void **state) {
    assert_int_equal(send_with("ca.pem", "nothing.pem", "client.key", 600), NIXL_ERR_INVALID_PARAM);
    assert_error("NIXL_ETCD_CERT");
    assert_error("nothing.pem cannot be read");
}

static int server_up(void **state) {
    exchange_install();
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(server.folder, sizeof server.folder, "/tmp/nixl-test-etcd-XXXXXX");
    is_ready = mkdtemp(server.folder) != NULL && certificates_make() && tls_server_start();
    setenv("NIXL_ETCD_ENDPOINTS", endpoint, 1);
    return 0;
}

static int server_down(void **state) {
    etcd_server_end(&server);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(with_the_right_certificates_it_works),
        TEST(a_server_that_is_not_trusted_gets_nothing),
        TEST(without_a_certificate_or_with_an_expired_one_nobody_is_let_in),
        TEST(a_certificate_that_is_not_there_is_told),
    };

    return cmocka_run_group_tests(tests, server_up, server_down);
}
