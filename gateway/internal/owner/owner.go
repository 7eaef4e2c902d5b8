// Package owner names to whom a session, a task or a kept text belongs, and for whom the bounds count it.
package owner

import "strings"

// Name returns the owner of a session: its principal and profile. What one profile has does not exist under
// another. The name of a principal has no zero byte.
func Name(principal, profile string) string {
	if profile == "" {
		return principal
	}
	return principal + "\x00" + profile
}

// Principal returns the principal of an owner. Bounds count for it, however many profiles it can use.
func Principal(name string) string {
	principal, _, _ := strings.Cut(name, "\x00")
	return principal
}
