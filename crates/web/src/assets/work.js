// Finds a number with which the SHA-256 of "challenge.number" begins with zeros, keeps it as a cookie, and loads
// the page again. Web Crypto is not there without TLS, so the hash is computed here.
"use strict";
(() => {
  const work = document.getElementById("work");
  if (!work) return;
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32) | 0;
  const k = primes.map((p) => fraction(Math.cbrt(p)));
  const start = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  // The first word of the hash of a text of at most 55 ASCII characters.
  const first = (text) => {
    const w = new Int32Array(64);
    for (let i = 0; i < text.length; i++) w[i >> 2] |= text.charCodeAt(i) << (24 - 8 * (i & 3));
    w[text.length >> 2] |= 0x80 << (24 - 8 * (text.length & 3));
    w[15] = 8 * text.length;
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = start;
    for (let i = 0; i < 64; i++) {
      const t1 = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i]) | 0;
      const t2 = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    return (a + start[0]) | 0;
  };
  const { challenge, bits, cookie } = work.dataset;
  let number = Math.floor(Math.random() * 1e6) * 1e6;
  const some = () => {
    for (let i = 0; i < 5000; i++, number++) {
      if (Math.clz32(first(`${challenge}.${number}`)) >= Number(bits)) {
        document.cookie = `${cookie}=${challenge}.${number}; path=/; max-age=3600; samesite=lax`;
        location.reload();
        return;
      }
    }
    setTimeout(some);
  };
  some();
})();
