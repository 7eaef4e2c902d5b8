package hosts

import (
	"regexp"
	"strings"
)

// What an import writes is often shared, so it takes more for a secret than package secret,
// which masks what users read. A false alarm costs the user one variable to set; a secret that
// was missed is published.

// likelyNames are the names of values that are likely secrets, beside those that package
// secret knows. Short words count only as a whole.
var likelyNames = regexp.MustCompile(`(?i)session|licen[cs]e|webhook|(^|[_.-])(basic|hook|login|seed|salt|dsn)([_.-]|$)`)

// webhook matches an address that is a secret by itself.
var webhook = regexp.MustCompile(`(?i)://([\w.-]+\.)?(web)?hooks?[.-]|/(incoming)?(web)?hooks?/`)

// plainValue matches what is no secret under any name: numbers, truths, paths.
var plainValue = regexp.MustCompile(`^([\d.:]*|(?i:true|false|yes|no|on|off|none)|[/~.].*|[A-Za-z]:[\\/].*)$`)

// minLikely is the shortest value in bytes that is taken for a secret by its name.
const minLikely = 6

// isLikelySecret reports whether a value is a secret by its name or by its form. The name
// may be empty.
func isLikelySecret(name, value string) bool {
	if webhook.MatchString(value) {
		return true
	}
	if strings.Contains(value, "://") { // its parts are looked at by package secret
		return false
	}
	return len(value) >= minLikely && likelyNames.MatchString(name) && !plainValue.MatchString(value)
}
