package guard

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"slices"
	"time"
)

// guardTLS guards the functions of a TLS configuration. c is a clone that belongs to
// the caller.
func guardTLS(c *tls.Config) {
	if f := c.GetClientCertificate; f != nil {
		c.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := Value("GetClientCertificate", func() (*tls.Certificate, error) { return f(info) })
			if err != nil || cert == nil {
				return cert, err
			}
			own := guardCertificate(*cert)
			return &own, nil
		}
	}
	if f := c.VerifyPeerCertificate; f != nil {
		c.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			return Call("VerifyPeerCertificate", func() error { return f(raw, chains) })
		}
	}
	if f := c.VerifyConnection; f != nil {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			return Call("VerifyConnection", func() error { return f(s) })
		}
	}
	if f := c.EncryptedClientHelloRejectionVerify; f != nil {
		c.EncryptedClientHelloRejectionVerify = func(s tls.ConnectionState) error {
			return Call("EncryptedClientHelloRejectionVerify", func() error { return f(s) })
		}
	}
	if f := c.Time; f != nil {
		c.Time = func() time.Time {
			now, err := Value("Time of TLS", func() (time.Time, error) { return f(), nil })
			if err != nil {
				return time.Now()
			}
			return now
		}
	}
	if c.Rand != nil {
		c.Rand = reader{c.Rand}
	}
	if c.KeyLogWriter != nil {
		c.KeyLogWriter = writer{c.KeyLogWriter}
	}
	if c.ClientSessionCache != nil {
		c.ClientSessionCache = sessionCache{c.ClientSessionCache}
	}
	c.Certificates = slices.Clone(c.Certificates)
	for i := range c.Certificates {
		c.Certificates[i] = guardCertificate(c.Certificates[i])
	}
}

// guardCertificate guards a private key of the host, for instance in a hardware
// token. Keys of the standard library need no guard.
func guardCertificate(c tls.Certificate) tls.Certificate {
	switch key := c.PrivateKey.(type) {
	case *rsa.PrivateKey, *ecdsa.PrivateKey, ed25519.PrivateKey:
	case crypto.MessageSigner:
		c.PrivateKey = messageSigner{signer{key}, key}
	case crypto.Signer:
		c.PrivateKey = signer{key}
	}
	return c
}

// signer guards a private key of the host.
type signer struct{ crypto.Signer }

// Public implements crypto.Signer.
func (s signer) Public() crypto.PublicKey {
	key, _ := Value("private key", func() (crypto.PublicKey, error) { return s.Signer.Public(), nil })
	return key
}

// Sign implements crypto.Signer.
func (s signer) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return Value("private key", func() ([]byte, error) { return s.Signer.Sign(rand, digest, opts) })
}

// messageSigner guards a private key that signs whole messages.
type messageSigner struct {
	signer
	key crypto.MessageSigner
}

// SignMessage implements crypto.MessageSigner.
func (s messageSigner) SignMessage(rand io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	return Value("private key", func() ([]byte, error) { return s.key.SignMessage(rand, msg, opts) })
}

// reader guards a source of random numbers.
type reader struct{ io.Reader }

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	return Value("source of random numbers", func() (int, error) { return r.Reader.Read(p) })
}

// writer guards a writer of TLS keys.
type writer struct{ io.Writer }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	return Value("writer of TLS keys", func() (int, error) { return w.Writer.Write(p) })
}

// sessionCache guards a cache of TLS sessions.
type sessionCache struct{ tls.ClientSessionCache }

// Get implements tls.ClientSessionCache.
func (s sessionCache) Get(key string) (state *tls.ClientSessionState, ok bool) {
	err := Call("cache of TLS sessions", func() error { state, ok = s.ClientSessionCache.Get(key); return nil })
	return state, ok && err == nil
}

// Put implements tls.ClientSessionCache.
func (s sessionCache) Put(key string, state *tls.ClientSessionState) {
	_ = Call("cache of TLS sessions", func() error { s.ClientSessionCache.Put(key, state); return nil })
}
