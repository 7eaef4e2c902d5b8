// Package environ says what a stdio server gets of the host's environment.
package environ

import (
	"runtime"
	"slices"
	"strings"
)

// names are the variables that programs need to find their user, their
// directories, the display, the network's proxy and its certificates. Nothing
// that tends to hold secrets is among them, save the password of a proxy.
var names = []string{
	"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP",
	"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "KUBECONFIG",
}

var windowsNames = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR",
}

// prefixes begin the names of whole families: locale and desktop directories.
var prefixes = []string{"LC_", "XDG_"}

// Inherits reports whether a server gets a variable of the host's environment
// without being given it.
func Inherits(name string) bool {
	if runtime.GOOS == "windows" { // where PATH and Path are one variable
		name = strings.ToUpper(name)
		if slices.Contains(windowsNames, name) {
			return true
		}
	}
	if strings.HasSuffix(name, "_proxy") { // programs read these in either case
		name = strings.ToUpper(name)
	}
	return slices.Contains(names, name) ||
		slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
