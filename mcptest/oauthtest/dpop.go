package oauthtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"time"
)

// proofWindow is how far the time of a proof may be from that of the server.
const proofWindow = 5 * time.Minute

// checkProof checks the DPoP proof of a request (RFC 9449, section 4.3). htu is the address
// of the endpoint; token the access token of the request, empty at the token endpoint. It
// returns the thumbprint of the key. a.mu is held.
func (a *Server) checkProof(r *http.Request, htu, token string) (thumbprint string, err error) {
	values := r.Header.Values("DPoP")
	if len(values) != 1 {
		return "", errors.New("not exactly one DPoP header")
	}
	parts := strings.Split(values[0], ".")
	if len(parts) != 3 {
		return "", errors.New("the proof is no JWT")
	}
	var header struct {
		Type string `json:"typ"`
		Alg  string `json:"alg"`
		Key  struct {
			Type  string `json:"kty"`
			Curve string `json:"crv"`
			X     string `json:"x"`
			Y     string `json:"y"`
			D     string `json:"d"`
		} `json:"jwk"`
	}
	var claims struct {
		ID        string `json:"jti"`
		Method    string `json:"htm"`
		Target    string `json:"htu"`
		IssuedAt  int64  `json:"iat"`
		TokenHash string `json:"ath"`
		Nonce     string `json:"nonce"`
	}
	if decodePart(parts[0], &header) != nil || decodePart(parts[1], &claims) != nil {
		return "", errors.New("the proof cannot be decoded")
	}
	switch age := time.Since(time.Unix(claims.IssuedAt, 0)); {
	case header.Type != "dpop+jwt" || header.Alg != "ES256" || header.Key.Type != "EC" || header.Key.Curve != "P-256":
		return "", errors.New("the proof is not of type dpop+jwt with ES256")
	case header.Key.D != "":
		return "", errors.New("the proof holds a private key")
	case !verifies(parts, header.Key.X, header.Key.Y):
		return "", errors.New("the signature of the proof is wrong")
	case claims.Method != r.Method || claims.Target != htu:
		return "", errors.New("the proof is for another request")
	case age > proofWindow || age < -proofWindow:
		return "", errors.New("the proof is too old, or of the future")
	case token != "" && claims.TokenHash != hashOf(token):
		return "", errors.New("the proof is for another token")
	case claims.ID == "" || a.proofs[claims.ID]:
		return "", errors.New("the proof was used before")
	case a.rules.DPoPNonce != "" && claims.Nonce != a.rules.DPoPNonce:
		return "", errUseNonce
	}
	a.proofs[claims.ID] = true
	// RFC 7638, section 3: the members in the order of their names.
	return hashOf(`{"crv":"P-256","kty":"EC","x":"` + header.Key.X + `","y":"` + header.Key.Y + `"}`), nil
}

// errUseNonce is the error of a proof without the nonce that the rules demand.
var errUseNonce = errors.New("use_dpop_nonce")

// errorCode returns the error code of a refused proof.
func errorCode(err error) string {
	if errors.Is(err, errUseNonce) {
		return errUseNonce.Error()
	}
	return "invalid_dpop_proof"
}

// verifies reports whether the signature of a JWT was made with a key.
func verifies(parts []string, x, y string) bool {
	point := []byte{4}
	for _, text := range []string{x, y} {
		coordinate, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return false
		}
		point = append(point, coordinate...)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	signature, decodeErr := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || decodeErr != nil || len(signature) != 64 {
		return false
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}

func decodePart(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
