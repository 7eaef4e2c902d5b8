// Package sessionid makes and reads ids of sessions. An id contains all that is known of its session, so
// another process with the same key accepts it. It is signed and not encrypted. Ended has the sessions
// that clients have ended, at most MaxEnded.
package sessionid

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// Session is what an id contains.
type Session struct {
	// Version is the index of the protocol version in the list of the caller.
	Version byte
	// Capabilities are the capabilities of the client, as bits.
	Capabilities uint16
	// Principal has opened the session.
	Principal string
	// Expiry is when the id expires, in whole seconds.
	Expiry time.Time
	// Nonce identifies the session.
	Nonce [nonceBytes]byte
	// Client and ClientVersion are what the client says that it is. The id has the first 100 bytes of each.
	Client, ClientVersion string
}

const (
	format     = 1
	nonceBytes = 12
	// The parts of an id before its signature: format, version, capabilities, expiry, nonce, and
	// the beginning of the hash of the principal.
	principalBytes = 16
	bodyBytes      = 1 + 1 + 2 + 8 + nonceBytes + principalBytes
	signatureBytes = 16
	// Between the body and the signature are the length of the client's name, the name and the version; nothing if
	// neither is known.
	maxText     = 100
	maxIDLength = (bodyBytes+1+2*maxText+signatureBytes)*4/3 + 1
)

// encoding has no padding, and only characters that are valid in a header. Each id has exactly one
// encoding.
var encoding = base64.RawURLEncoding.Strict()

// Errors of Open. A peer should not be told which one it is.
var (
	ErrForged    = errors.New("the session id was not made with this key")
	ErrExpired   = errors.New("the session has expired")
	ErrPrincipal = errors.New("the session is of another principal")
)

// New returns a session with a random nonce.
func New(version byte, capabilities uint16, principal string, expiry time.Time) Session {
	s := Session{Version: version, Capabilities: capabilities, Principal: principal, Expiry: expiry.Truncate(time.Second)}
	_, _ = rand.Read(s.Nonce[:]) // it does not fail
	return s
}

// Seal returns the id of a session.
func Seal(key []byte, s Session) string {
	b := make([]byte, 0, bodyBytes+signatureBytes)
	b = append(b, format, s.Version)
	b = binary.BigEndian.AppendUint16(b, s.Capabilities)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Expiry.Unix()))
	b = append(b, s.Nonce[:]...)
	b = append(b, hashOf(s.Principal)...)
	if name, version := shorten(s.Client), shorten(s.ClientVersion); name+version != "" {
		b = append(append(append(b, byte(len(name))), name...), version...)
	}
	return encoding.EncodeToString(append(b, sign(key, b)...))
}

// Open reads an id that a principal has sent.
func Open(key []byte, id, principal string, now time.Time) (Session, error) {
	if len(id) < encoding.EncodedLen(bodyBytes+signatureBytes) || len(id) > maxIDLength {
		return Session{}, ErrForged
	}
	b, err := encoding.DecodeString(id)
	signed := max(len(b)-signatureBytes, 0)
	if err != nil || !hmac.Equal(b[signed:], sign(key, b[:signed])) || b[0] != format {
		return Session{}, ErrForged
	}
	s := Session{Version: b[1], Capabilities: binary.BigEndian.Uint16(b[2:]), Principal: principal, Expiry: time.Unix(int64(binary.BigEndian.Uint64(b[4:])), 0)}
	copy(s.Nonce[:], b[12:])
	if texts := b[bodyBytes:signed]; len(texts) > 0 {
		s.Client, s.ClientVersion = string(texts[1:1+texts[0]]), string(texts[1+texts[0]:])
	}
	switch {
	case !hmac.Equal(b[bodyBytes-principalBytes:bodyBytes], hashOf(principal)):
		return Session{}, ErrPrincipal
	case !now.Before(s.Expiry):
		return Session{}, ErrExpired
	}
	return s, nil
}

func shorten(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

func hashOf(principal string) []byte {
	sum := sha256.Sum256([]byte("mcpvisor principal\x00" + principal))
	return sum[:principalBytes]
}

func sign(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("mcpvisor session\x00"))
	mac.Write(body)
	return mac.Sum(nil)[:signatureBytes]
}
