// Package owner names the owner of a session, a task or a kept text, and the principal that its bounds count for, and finds the
// principal that has most.
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

// Largest returns the principal that has most of something: where a bound for all is reached, it gives way.
func Largest[T any](of map[string]T, size func(principal string, has T) int) (name string) {
	most := 0
	for principal, has := range of {
		if n := size(principal, has); n > most {
			name, most = principal, n
		}
	}
	return name
}

// Principal returns the principal of an owner. Bounds count for it, however many profiles it can use.
func Principal(name string) string {
	principal, _, _ := strings.Cut(name, "\x00")
	return principal
}
