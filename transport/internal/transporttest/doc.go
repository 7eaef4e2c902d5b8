// Package transporttest has what the tests of several transports share: small servers,
// handlers, and assertions about sessions. Only tests import it.
package transporttest
