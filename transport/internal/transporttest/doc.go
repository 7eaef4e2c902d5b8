// Package transporttest holds what the tests of several transports share: small servers,
// handlers of the host, and assertions about sessions. Only tests import it.
package transporttest
