package redislimit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ParseURL reads where Redis is, and how its servers work together:
//
//	redis://user:password@host:6379/0                one server
//	redis+cluster://host1:6379,host2:6379            a cluster: some of its nodes
//	redis+sentinel://host1:26379,host2:26379/name/0  the Sentinels of a master
//
// rediss instead of redis is TLS. Ports default to 6379, and to 26379 for
// Sentinels; the database to 0. Errors do not repeat the password.
func ParseURL(s string) (redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return redis.UniversalOptions{}, errors.New("redislimit: the address has no scheme: write it like redis://127.0.0.1:6379/0")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	if base != "redis" && base != "rediss" || kind != "" && kind != "cluster" && kind != "sentinel" {
		return redis.UniversalOptions{}, fmt.Errorf("redislimit: scheme %q is unknown: use redis, redis+cluster or redis+sentinel, or rediss for TLS", scheme)
	}
	userinfo, rest, found := cutLast(rest, "@")
	if !found {
		userinfo = ""
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(rest, "?#") {
		return redis.UniversalOptions{}, errors.New("redislimit: the address has parameters: only user, hosts and path are read")
	}
	var o redis.UniversalOptions
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return redis.UniversalOptions{}, err
		}
		o.Addrs = append(o.Addrs, addr)
	}
	if err := parsePath(&o, kind, path); err != nil {
		return redis.UniversalOptions{}, err
	}
	err := parseUser(&o, base, userinfo)
	return o, err
}

// cutLast cuts around the last sep; without one everything is after it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

func hostPort(s, port string) (string, error) {
	host, given, err := net.SplitHostPort(s)
	if err != nil {
		host, given = strings.Trim(s, "[]"), port
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
		host = "" // colons belong to IPv6 only
	}
	number, err := strconv.ParseUint(given, 10, 16)
	if err != nil || number == 0 || host == "" || strings.ContainsAny(host, " []%/@") {
		return "", fmt.Errorf("redislimit: %q is no host with a port: write it like 127.0.0.1:6379", s)
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)), nil
}

// parsePath reads the database, and before it the master's name that Sentinels
// know.
func parsePath(o *redis.UniversalOptions, kind, path string) error {
	switch kind {
	case "cluster":
		o.IsClusterMode = true
		if path != "" && path != "0" {
			return fmt.Errorf("redislimit: a cluster has no database %q: leave the path out", path)
		}
		return nil
	case "sentinel":
		if o.MasterName, path, _ = strings.Cut(path, "/"); o.MasterName == "" {
			return errors.New("redislimit: the master has no name: write it after the hosts, like redis+sentinel://host:26379/mymaster")
		}
	default:
		if len(o.Addrs) > 1 {
			return fmt.Errorf("redislimit: %d hosts: say whether they are redis+cluster or redis+sentinel", len(o.Addrs))
		}
	}
	if path == "" {
		return nil
	}
	for i := range len(path) {
		if path[i] < '0' || path[i] > '9' || len(path) > 4 {
			return fmt.Errorf("redislimit: %q is no number of a database", path)
		}
		o.DB = o.DB*10 + int(path[i]-'0')
	}
	return nil
}

func parseUser(o *redis.UniversalOptions, base, userinfo string) error {
	if base == "rediss" {
		o.TLSConfig = tlsConfig(o)
	}
	if userinfo == "" {
		return nil
	}
	user, password, _ := strings.Cut(userinfo, ":")
	var err1, err2 error
	o.Username, err1 = url.PathUnescape(user)
	o.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil { // neither is shown: they hold the password
		return fmt.Errorf("redislimit: user or password is badly escaped: write %%25 for a percent sign")
	}
	return nil
}
