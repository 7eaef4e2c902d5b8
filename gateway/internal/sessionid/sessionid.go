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
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/internal/ownfile"
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

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // it does not fail
	return key
}

// LoadKey reads a key from a file. If there is no file, it makes one that only the user may read.
// Processes that do so concurrently get the same key.
func LoadKey(path string) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // its mode is 0600
	if err != nil {
		return nil, fmt.Errorf("make a session key: %w", err)
	}
	defer os.Remove(made.Name()) //nolint:errcheck // the key file is a link to it, or it is not needed
	_, err = made.Write(NewKey())
	if err == nil {
		err = made.Sync()
	}
	if closed := made.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Link(made.Name(), path) // it fails if another process was first
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the session key %s: %w", path, err)
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the session key: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the session key: %w", err)
	}
	if uid, known := ownfile.OwnerOf(info); !info.Mode().IsRegular() || known && uid != os.Geteuid() && uid != 0 {
		return nil, fmt.Errorf("the session key %s is not a file of this user; delete it, and a new one is made", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the session key %s may be read or changed by other users (mode %#o); make a new one, or chmod 600", path, info.Mode().Perm())
	}
	key, err := io.ReadAll(io.LimitReader(file, KeyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the session key: %w", err)
	}
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("the session key %s does not have %d bytes; delete the file, and a new one is made", path, KeyBytes)
	}
	return key, nil
}

// MaxEnded bounds the ended sessions that are remembered. Beyond it the principal with the most is affected:
// those of its ids that expire first become valid again.
const MaxEnded = 100_000

// Ended remembers the sessions that clients have ended, until they expire. Not safe for concurrent use.
type Ended struct {
	most  int
	count int
	of    map[string]map[[nonceBytes]byte]time.Time // by principal
}

// NewEnded returns an empty Ended that remembers at most that many sessions.
func NewEnded(most int) Ended {
	return Ended{most: most, of: map[string]map[[nonceBytes]byte]time.Time{}}
}

// Has reports whether a client has ended the session.
func (e *Ended) Has(principal string, id [nonceBytes]byte) bool {
	_, ended := e.of[principal][id]
	return ended
}

// Add remembers that a client has ended a session.
func (e *Ended) Add(principal string, id [nonceBytes]byte, expiry time.Time) {
	if e.Has(principal, id) {
		return
	}
	if e.count >= e.most {
		e.makeRoom()
	}
	if e.of[principal] == nil {
		e.of[principal] = map[[nonceBytes]byte]time.Time{}
	}
	e.of[principal][id] = expiry
	e.count++
}

// makeRoom forgets sessions that have expired. If there are none, it forgets a tenth of those of the
// principal with the most, so that the next calls of Add need not search.
func (e *Ended) makeRoom() {
	now := time.Now()
	e.forget(func(_ string, expiry time.Time) bool { return !expiry.After(now) })
	if e.count < e.most {
		return
	}
	largest := owner.Largest(e.of, func(_ string, ended map[[nonceBytes]byte]time.Time) int { return len(ended) })
	expiries := slices.SortedFunc(maps.Values(e.of[largest]), time.Time.Compare)
	last := expiries[len(expiries)/10]
	e.forget(func(principal string, expiry time.Time) bool { return principal == largest && !expiry.After(last) })
}

func (e *Ended) forget(which func(principal string, expiry time.Time) bool) {
	for principal, ended := range e.of {
		for id, expiry := range ended {
			if which(principal, expiry) {
				delete(ended, id)
				e.count--
			}
		}
		if len(ended) == 0 {
			delete(e.of, principal)
		}
	}
}
