package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// pageFiles are the files of the page. There is no build step: what is in the folder is
// what browsers get.
//
//go:embed page
var pageFiles embed.FS

type asset struct {
	contentType string
	etag        string
	plain       []byte
	compressed  []byte // by gzip
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// assets reads the files of the page, by name. They are compressed once, when the first
// page is opened.
var assets = sync.OnceValue(func() map[string]asset {
	files, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(fmt.Sprintf("web: the files of the page are not embedded: %v", err))
	}
	all := make(map[string]asset, len(files))
	for _, f := range files {
		data, err := pageFiles.ReadFile(path.Join("page", f.Name()))
		if err != nil {
			panic(fmt.Sprintf("web: %v", err))
		}
		var compressed bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // the level is valid
		_, _ = zip.Write(data)                                           // a buffer takes everything
		_ = zip.Close()
		sum := sha256.Sum256(data)
		all[f.Name()] = asset{contentType: contentTypes[path.Ext(f.Name())], etag: `"` + hex.EncodeToString(sum[:8]) + `"`,
			plain: data, compressed: compressed.Bytes()}
	}
	return all
})

func (h *Handler) getIndex(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, "index.html") }

func (h *Handler) getAsset(w http.ResponseWriter, r *http.Request) {
	serveAsset(w, r, r.PathValue("file"))
}

// serveAsset serves a file of the page. Browsers ask each time whether it has changed, so
// that a page of an older version does not stay.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	file, found := assets()[name]
	if !found {
		writeError(w, http.StatusNotFound, api.ErrorDetail{Message: "no such page"})
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.contentType)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", file.etag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), file.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := file.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = file.compressed
	}
	jsonanswer.SetDeadline(w, len(body))
	_, _ = w.Write(body) // a client that has gone needs no answer
}
