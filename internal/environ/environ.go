// Package environ decides which variables of the host's environment a stdio server
// inherits.
package environ

import (
	"runtime"
	"slices"
	"strings"
)

// inheritedNames are the variables that programs need to find their user, their
// directories, the display, the proxy and the certificates. None of them usually holds
// secrets, except the password in the URL of a proxy.
var inheritedNames = []string{
	"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP",
	"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "KUBECONFIG",
}

// inheritedOnWindows are those that programs on Windows need, too.
var inheritedOnWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR",
}

// inheritedPrefixes are the prefixes of groups of variables: locale and desktop
// directories.
var inheritedPrefixes = []string{"LC_", "XDG_"}

// Inherits reports whether a server inherits a variable although its spec does not name
// it.
func Inherits(name string) bool {
	if runtime.GOOS == "windows" { // PATH and Path are one variable there
		name = strings.ToUpper(name)
		if slices.Contains(inheritedOnWindows, name) {
			return true
		}
	}
	if strings.HasSuffix(name, "_proxy") { // programs read these in upper and lower case
		name = strings.ToUpper(name)
	}
	return slices.Contains(inheritedNames, name) ||
		slices.ContainsFunc(inheritedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
