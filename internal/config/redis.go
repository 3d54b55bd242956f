package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/comporta/comporta/gate/ratelimit/redislimit"
)

// The stores of a rule.
const (
	StoreLocal = "local"
	StoreRedis = "redis"
)

// RedisURL is the address of one Redis, a cluster or its Sentinels. It may hold a
// password.
type RedisURL string

// String writes the address without user and password.
func (u RedisURL) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return string(u)
	}
	return scheme + "://" + redacted + rest[at:]
}

func (u RedisURL) tls() bool { return strings.HasPrefix(string(u), "rediss") }

func (u RedisURL) sentinels() bool {
	scheme, _, _ := strings.Cut(string(u), "://")
	return strings.HasSuffix(scheme, "+sentinel")
}

var redisURLType = &scalarType{
	name:   "Redis URL",
	quoted: true,
	parse: func(text string, _ *rule) (any, *fault) {
		if text == "" {
			return RedisURL(""), nil
		}
		if f := checkRedisURL(text); f != nil {
			return nil, f
		}
		return RedisURL(text), nil
	},
	print:  func(v reflect.Value) string { u, _ := reflect.TypeAssert[RedisURL](v); return u.String() },
	schema: func(*rule) map[string]any { return map[string]any{"type": "string"} },
}

// checkRedisURL asks the package that will read the address. Its errors repeat no
// password.
func checkRedisURL(text string) *fault {
	_, err := redislimit.ParseURL(text)
	if err == nil {
		return nil
	}
	message := strings.TrimPrefix(err.Error(), "redislimit: ")
	if i := strings.LastIndex(message, ": "); i > 0 {
		return &fault{message[:i], message[i+2:]}
	}
	return &fault{message, "redis://127.0.0.1:6379/0"}
}

func checkRedisPrefix(text string) *fault {
	const most = 64
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' }
	if text == "" || len(text) > most || strings.ContainsFunc(text, odd) {
		return &fault{show(text) + " cannot begin the names of keys", fmt.Sprintf("up to %d printable characters without spaces and braces: comporta:rl", most)}
	}
	return nil
}

// SharesLimits reports whether any rule is counted in Redis.
func (c *Config) SharesLimits() bool {
	return slices.ContainsFunc(c.RateLimits, func(r RateLimit) bool { return r.Store == StoreRedis })
}

// RedisAddress is where Redis is, with what opens it.
type RedisAddress struct{ URL, Password, SentinelPassword string }

// Address is the address with its passwords, as the configuration and its files
// have them. It reads the files each time, so that a reload finds new ones.
func (r *Redis) Address() (RedisAddress, error) {
	a := RedisAddress{URL: string(r.URL)}
	var err error
	var problems []error
	if r.URLFile != "" {
		a.URL, err = readLine(r.URLFile)
		if err == nil {
			if f := checkRedisURL(a.URL); f != nil { // the address itself stays unsaid
				err = fmt.Errorf("%s: %s: %s", r.URLFile, f.message, f.hint)
			}
		}
		problems = append(problems, inKey("redis.url_file", err))
	}
	if r.PasswordFile != "" {
		a.Password, err = readLine(r.PasswordFile)
		if err == nil && strings.Contains(userOf(a.URL), ":") {
			err = errors.New("the address has a password already: remove one of the two")
		}
		problems = append(problems, inKey("redis.password_file", err))
	}
	if r.SentinelPasswordFile != "" {
		a.SentinelPassword, err = readLine(r.SentinelPasswordFile)
		problems = append(problems, inKey("redis.sentinel_password_file", err))
	}
	return a, errors.Join(problems...)
}

func inKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// userOf is what stands before the last @.
func userOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	return rest[:max(strings.LastIndexByte(rest, '@'), 0)]
}

// maxSecret is the length of the longest secret that a file may hold.
const maxSecret = 64 << 10

// readLine reads a file that holds one line.
func readLine(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %s", name, reason(err))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" || len(data) > maxSecret || strings.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("%s does not hold one line of text", name)
	}
	return text, nil
}

// checkRedis looks for rules that could not be shared, and for a Redis that would
// have nothing to do.
func (l *loader) checkRedis() {
	r := &l.c.Redis
	if !l.sound("redis") {
		return
	}
	if r.URL != "" && r.URLFile != "" {
		l.wrongf("redis.url_file", "remove one of the two", "redis.url is set already")
	}
	switch {
	case r.PasswordFile == "":
	case r.URL == "" && r.URLFile == "":
		l.wrongf("redis.password_file", "redis: {url: redis://127.0.0.1:6379/0}", "there is no address that it could be for")
	case strings.Contains(userOf(string(r.URL)), ":"):
		l.wrongf("redis.password_file", "remove one of the two", "the address has a password already")
	}
	if r.SentinelPasswordFile != "" && r.URL != "" && !r.URL.sentinels() {
		l.wrongf("redis.sentinel_password_file", "redis+sentinel://…, or remove it", "the address names no Sentinels")
	}
	if r.CAFile != "" && r.URL != "" && !r.URL.tls() {
		l.wrongf("redis.ca_file", "rediss://…", "the address is not TLS, so no certificate is judged")
	}
	if !l.sound("rate_limits", "keys") {
		return
	}
	if r.URL != "" && !l.c.SharesLimits() {
		l.warnf("redis.url", "rate_limits: [{name: …, store: redis}]", "no rule is counted there")
	}
	l.checkShared()
}

// checkShared looks at the rules that are counted in Redis.
func (l *loader) checkShared() {
	r, told, divided := &l.c.Redis, false, false
	for i := range l.c.RateLimits {
		rule, path := &l.c.RateLimits[i], fmt.Sprintf("rate_limits[%d]", i)
		if rule.Store != StoreRedis {
			continue
		}
		switch {
		case r.URL == "" && r.URLFile == "":
			l.wrongf(path+".store", "redis: {url: redis://127.0.0.1:6379/0}, or store: local", "there is no Redis to count in")
		case rule.Quota != nil:
			l.wrongf(path+".store", "store: local; or put the quota into a rule of its own", "a quota is counted in each gateway by itself")
		case l.c.Keys.File == "" && !told:
			told = true
			l.wrongf(path+".store", "keys: {file: keys}, the same in every gateway",
				"without keys.file each gateway names clients by a key of its own, so that nothing would be shared")
		}
		if rule.OnStoreFailure == "local" && !l.given("redis.gateways") && !divided {
			divided = true
			l.warnf(path+".on_store_failure", "redis: {gateways: N}", "while Redis is away each gateway grants the whole rule by itself")
		}
	}
}
