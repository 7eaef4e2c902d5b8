package mcpvisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stdio describes a server that is a subprocess and speaks newline-delimited JSON-RPC
// on its stdin and stdout.
//
// The process does not inherit the host's whole environment; InheritEnv lists what it
// gets. It runs in a process group of its own. When the server ends, the group is
// ended with it, and on Linux also what has left the group.
type Stdio struct {
	// Command is the program: a name without a slash is looked up in the PATH of the host,
	// and a relative path such as "./server" begins at Dir. Required.
	Command string
	// Args are the program's arguments, without its name.
	Args []string
	// Env is added to the process's environment and overrides what is inherited.
	Env map[string]string
	// InheritEnv passes the host's whole environment. By default the server gets only these
	// variables of the host: HOME, USER, LOGNAME, SHELL, PATH, TERM, TZ, LANG, LANGUAGE, LC_*, TMPDIR,
	// TMP, TEMP, XDG_*, DISPLAY, WAYLAND_DISPLAY, XAUTHORITY, KUBECONFIG, the proxies
	// (HTTP_PROXY, HTTPS_PROXY, FTP_PROXY, ALL_PROXY, NO_PROXY, in either case), and
	// SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE and
	// CURL_CA_BUNDLE; on Windows also what the system sets. Name others in Env.
	InheritEnv bool
	// Dir is the working directory. Default: that of the host.
	Dir string
	// KeepDaemons leaves processes running that the server started and that have left
	// its process group. By default they are ended with the server: on Linux they are
	// recognised by a variable in their environment and a number in their resource
	// limits; on other systems they cannot be found. Set it for a server that starts
	// daemons which are meant to stay.
	KeepDaemons bool
}

func (c *Stdio) clone() *Stdio {
	if c == nil {
		return nil
	}
	d := *c
	d.Args, d.Env = slices.Clone(c.Args), maps.Clone(c.Env)
	return &d
}

func (c *Stdio) validate() (errs []error) {
	if strings.TrimSpace(c.Command) == "" {
		errs = append(errs, errors.New("stdio transport: Stdio.Command is empty; name the program to run"))
	}
	for _, text := range append([]string{c.Command, c.Dir}, c.Args...) {
		if strings.ContainsRune(text, 0) {
			errs = append(errs, errors.New("stdio transport: command, argument or directory holds a NUL byte; remove it"))
			break
		}
	}
	for name, value := range c.Env {
		if strings.ContainsRune(value, 0) {
			errs = append(errs, fmt.Errorf("stdio transport: the value of environment variable %q holds a NUL byte; remove it", name))
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			errs = append(errs, fmt.Errorf("stdio transport: environment variable name %q is not usable; it must not be empty or hold '='", name))
		}
	}
	return errs
}
