// Certificates made at run time by the openssl command: a test authority and the certificates that it issues,
// expired and future ones included.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A certificate with its key, in PEM form. */
export interface KeyPair {
  cert: string
  key: string
}

/** Options of a certificate. */
export interface CertificateOptions {
  /** `DNS:…` and `IP:…`, separated by commas. */
  names?: string
  /** Days from now. */
  fromDays?: number
  toDays?: number
  /** Encrypts the key. */
  passphrase?: string
}

/** A certificate authority that nobody trusts by default. */
export interface Authority {
  ca: string
  issue(options?: CertificateOptions): KeyPair
  /** A certificate that is signed by itself. */
  selfSigned(): KeyPair
}

const LOCAL = 'DNS:localhost,IP:127.0.0.1'
const DAY_MS = 86_400_000

/** Makes an authority; its files live as long as the call that needs them. */
export function createAuthority(): Authority {
  const ca = selfSigned('/CN=Test Authority', 'CA:TRUE', '')
  return {
    ca: ca.cert,
    issue: (options = {}) => inFolder((folder) => issue(folder, ca, options)),
    selfSigned: () => selfSigned('/CN=localhost', 'CA:FALSE', LOCAL),
  }
}

function selfSigned(subject: string, basicConstraints: string, names: string): KeyPair {
  return inFolder((folder) => {
    const extensions = [`basicConstraints=critical,${basicConstraints}`]
    if (names !== '') extensions.push(`subjectAltName=${names}`)
    openssl(folder, [
      ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30'.split(' '),
      '-subj',
      subject,
      ...'-keyout key.pem -out cert.pem'.split(' '),
      ...extensions.flatMap((one) => ['-addext', one]),
    ])
    return pairIn(folder)
  })
}

function issue(folder: string, ca: KeyPair, options: CertificateOptions): KeyPair {
  writeFileSync(join(folder, 'index.txt'), '')
  writeFileSync(join(folder, 'serial'), '1000')
  writeFileSync(join(folder, 'ca.pem'), ca.cert)
  writeFileSync(join(folder, 'ca-key.pem'), ca.key)
  writeFileSync(join(folder, 'ca.cnf'), configuration(options.names ?? LOCAL))
  openssl(folder, [
    ...'req -new -newkey rsa:2048 -subj /CN=leaf.test -keyout key.pem -out request.pem'.split(' '),
    ...(options.passphrase === undefined ? ['-nodes'] : ['-passout', `pass:${options.passphrase}`]),
  ])
  openssl(folder, [
    ...'ca -batch -notext -config ca.cnf -in request.pem -out cert.pem'.split(' '),
    ...'-cert ca.pem -keyfile ca-key.pem'.split(' '),
    '-startdate',
    asn1Time(options.fromDays ?? -1),
    '-enddate',
    asn1Time(options.toDays ?? 30),
  ])
  return pairIn(folder)
}

function pairIn(folder: string): KeyPair {
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) =>
    readFileSync(join(folder, name), 'utf8'),
  )
  return { key: key as string, cert: cert as string }
}

function configuration(names: string): string {
  return `
[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
x509_extensions = leaf
[any]
commonName = supplied
[leaf]
basicConstraints = critical,CA:FALSE
subjectAltName = ${names}
`
}

/** YYYYMMDDHHMMSSZ, so many days from now. */
function asn1Time(days: number): string {
  const iso = new Date(Date.now() + days * DAY_MS).toISOString()
  return `${iso.replaceAll(/[-:T]/g, '').slice(0, 14)}Z`
}

function openssl(folder: string, args: string[]): void {
  execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
}

function inFolder<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-certificates-'))
  try {
    return work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
