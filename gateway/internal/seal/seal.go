// Package seal makes texts that a client has to bring back, such as a requestState or the id of a task.
// They are encrypted and authenticated (AES-256-GCM) with a key that is derived from the session key: a
// client can neither read nor forge them, and another process with the same key accepts them. It keeps
// no state; the caller bounds the length of a text.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Seal returns a text that carries the fields. It consists of letters, digits, "-" and "_". kind names
// the purpose: Open does not accept a text for another kind.
func Seal(key []byte, kind string, fields ...string) string {
	var plain []byte
	for _, field := range fields {
		plain = binary.AppendUvarint(plain, uint64(len(field)))
		plain = append(plain, field...)
	}
	return encoding.EncodeToString(cipherOf(key, kind).Seal(nil, nil, plain, nil)) //nolint:gosec // it makes the nonce
}

// ErrForged is the error of a text that Seal has not made with this key and kind.
var ErrForged = errors.New("it was not made by this gateway, or with another key, or it was changed")

// Open returns the fields of a text that Seal has made with the same key and kind.
func Open(key []byte, kind, text string) (fields []string, err error) {
	sealed, err := encoding.DecodeString(text)
	if err != nil {
		return nil, ErrForged
	}
	plain, err := cipherOf(key, kind).Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, ErrForged
	}
	for len(plain) > 0 {
		n, prefix := binary.Uvarint(plain)
		if prefix <= 0 || n > uint64(len(plain)-prefix) {
			return nil, ErrForged // Seal does not make such a text
		}
		plain = plain[prefix:]
		fields = append(fields, string(plain[:n]))
		plain = plain[n:]
	}
	return fields, nil
}

// encoding has no padding, and only characters that are valid in a URL and in a header. Each text has
// exactly one encoding.
var encoding = base64.RawURLEncoding.Strict()

// cipherOf makes the cipher in a few microseconds, so none is kept. Its nonces are random, so one key is
// safe for 2^32 texts of a kind.
func cipherOf(key []byte, kind string) cipher.AEAD {
	derived, err := hkdf.Key(sha256.New, key, nil, "mcpvisor seal\x00"+kind, 32)
	if err != nil {
		panic(fmt.Sprintf("gateway: derive the key of %s: %v", kind, err)) // only for a length that is not allowed
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(fmt.Sprintf("gateway: make the cipher of %s: %v", kind, err)) // only for a length that is not allowed
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(fmt.Sprintf("gateway: make the cipher of %s: %v", kind, err)) // as above
	}
	return aead
}

// Time encodes a time as a field of a sealed text, in whole seconds.
func Time(t time.Time) string { return strconv.FormatInt(t.Unix(), 36) }

// ReadTime decodes a field that Time has made.
func ReadTime(field string) time.Time {
	seconds, _ := strconv.ParseInt(field, 36, 64) // the text is authentic
	return time.Unix(seconds, 0)
}
