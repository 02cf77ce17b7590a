// Certificates made at run time by the openssl command: test authorities, the certificates that they issue, and their
// statements about revocation (OCSP responses and lists).
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
export interface IssueOptions {
  subject?: string
  /** Alternative names as openssl writes them; `none` for no extension. */
  names?: string
  /** `rsa:2048`, `ec:P-256`, `ed25519`: turned into arguments of `openssl genpkey`. */
  key?: string
  /** Days from now. */
  fromDays?: number
  toDays?: number
  digest?: string
  /** Encrypts the key. */
  passphrase?: string
  /** More lines of the extensions' section. */
  extensions?: string[]
  ca?: boolean
}

/** Options of an OCSP response. */
export interface OcspOptions {
  /** The pair of a delegated responder; without it the authority signs. */
  responder?: KeyPair
  /** Minutes until nextUpdate. */
  minutes?: number
  /** More arguments of `openssl ocsp`. */
  args?: string[]
}

/** One authority; its files are in a folder of their own. */
export class LocalAuthority {
  readonly pair: KeyPair
  readonly #root: string
  readonly #folder: string
  #made = 0

  constructor(root: string, pair: KeyPair) {
    this.#root = root
    this.#folder = mkdtempSync(join(root, 'authority-'))
    this.pair = pair
    const files = { 'ca.pem': pair.cert, 'ca.key': pair.key, 'index.txt': '', crlnumber: '01' }
    for (const [name, text] of Object.entries(files)) writeFileSync(this.#path(name), text)
    writeFileSync(this.#path('serial'), '1000')
    writeFileSync(this.#path('ca.cnf'), CONFIGURATION)
  }

  /** An authority of this certificate and key. */
  as(pair: KeyPair): LocalAuthority {
    return new LocalAuthority(this.#root, pair)
  }

  issue(options: IssueOptions = {}): KeyPair {
    const name = `leaf-${++this.#made}`
    const [keyFile, request, cert] = [`${name}.key`, `${name}.csr`, `${name}.pem`]
    this.openssl(keyArgs(options.key ?? 'ec:P-256', keyFile))
    const subject = options.subject ?? '/CN=leaf.test'
    this.openssl(['req', '-new', '-key', keyFile, '-subj', subject, '-out', request])
    writeFileSync(this.#path('ext.cnf'), extensionsOf(options))
    const args = ['ca', '-batch', '-notext', '-preserveDN', '-config', 'ca.cnf']
    args.push('-in', request, '-out', cert, '-extfile', 'ext.cnf', '-extensions', 'own')
    args.push(
      '-startdate',
      asn1Time(options.fromDays ?? -1),
      '-enddate',
      asn1Time(options.toDays ?? 60),
    )
    const digest = options.digest ?? 'sha256'
    if (digest !== 'none') args.push('-md', digest)
    this.openssl(args)
    if (options.passphrase === undefined) {
      return { cert: this.#read(cert), key: this.#read(keyFile) }
    }
    const lock = ['pkcs8', '-topk8', '-passout', `pass:${options.passphrase}`]
    this.openssl([...lock, '-in', keyFile, '-out', 'locked.key'])
    return { cert: this.#read(cert), key: this.#read('locked.key') }
  }

  revoke(pair: KeyPair, reason = 'keyCompromise'): void {
    writeFileSync(this.#path('revoked.pem'), pair.cert)
    this.openssl(['ca', '-config', 'ca.cnf', '-revoke', 'revoked.pem', '-crl_reason', reason])
  }

  /** The list of revoked certificates, DER. */
  list(args: string[] = ['-crldays', '7']): Buffer {
    this.openssl(['ca', '-config', 'ca.cnf', '-gencrl', '-out', 'list.pem', ...args])
    this.openssl(['crl', '-in', 'list.pem', '-outform', 'DER', '-out', 'list.der'])
    return readFileSync(this.#path('list.der'))
  }

  /** The response to a request (DER), or to one about this certificate. */
  ocsp(
    request: Buffer | KeyPair,
    { responder, minutes = 60, args = [] }: OcspOptions = {},
  ): Buffer {
    const signer = responder ?? this.pair
    writeFileSync(this.#path('signer.pem'), signer.cert)
    writeFileSync(this.#path('signer.key'), signer.key)
    const asked = Buffer.isBuffer(request) ? ['-reqin', 'request.der'] : ['-cert', 'asked.pem']
    if (Buffer.isBuffer(request)) writeFileSync(this.#path('request.der'), request)
    else {
      writeFileSync(this.#path('asked.pem'), request.cert)
      const about = 'ocsp -issuer ca.pem -cert asked.pem -no_nonce -reqout request.der'
      this.openssl(about.split(' '))
      asked.splice(0, 2, '-reqin', 'request.der')
    }
    const fixed = 'ocsp -index index.txt -CA ca.pem -rsigner signer.pem -rkey signer.key'
    const out = ['-respout', 'response.der', '-nmin', String(minutes)]
    this.openssl([...fixed.split(' '), ...asked, ...out, ...args])
    return readFileSync(this.#path('response.der'))
  }

  openssl(args: string[]): void {
    try {
      execFileSync('openssl', args, { cwd: this.#folder, stdio: ['ignore', 'pipe', 'pipe'] })
    } catch (error) {
      const { stderr } = error as { stderr: Buffer }
      throw new Error(`openssl ${args.join(' ')}: ${stderr.toString()}`, { cause: error })
    }
  }

  #path(name: string): string {
    return join(this.#folder, name)
  }

  #read(name: string): string {
    return readFileSync(this.#path(name), 'utf8')
  }
}

/** A root and an intermediate. */
export interface Pki extends Disposable {
  root: LocalAuthority
  intermediate: LocalAuthority
  /** What a client trusts. */
  ca: string
  /** A certificate of the intermediate with it behind, as servers send it. */
  issue(options?: IssueOptions): KeyPair
  /** Another authority, which nothing trusts. */
  stranger(): LocalAuthority
}

/** Makes both authorities; disposal removes their files. */
export function createPki(): Pki {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-pki-'))
  const root = new LocalAuthority(folder, rootPair(folder, '/O=Vedette Tests/CN=Test Root'))
  const middle = root.issue({
    subject: '/O=Vedette Tests/CN=Test Intermediate',
    ca: true,
    names: 'none',
    toDays: 300,
  })
  const intermediate = new LocalAuthority(folder, middle)
  return {
    root,
    intermediate,
    ca: root.pair.cert,
    issue(options) {
      const { cert, key } = intermediate.issue(options)
      return { cert: cert + middle.cert, key }
    },
    stranger: () => new LocalAuthority(folder, rootPair(folder, '/CN=Unknown Root')),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** A certificate authority that nobody trusts by default. */
export interface Authority {
  ca: string
  issue(options?: IssueOptions): KeyPair
  /** A certificate that is signed by itself. */
  selfSigned(): KeyPair
}

/** Makes an authority without intermediates; its files live as long as the call that needs them. */
export function createAuthority(): Authority {
  const ca = inFolder((folder) => rootPair(folder, '/CN=Test Authority', 30))
  const usual = { key: 'rsa:2048', toDays: 30 }
  const ofLocalhost = ['basicConstraints=critical,CA:FALSE', `subjectAltName=${LOCAL}`]
  return {
    ca: ca.cert,
    issue: (options) =>
      inFolder((folder) => new LocalAuthority(folder, ca).issue({ ...usual, ...options })),
    selfSigned: () =>
      inFolder((folder) => selfSignedPair(folder, '/CN=localhost', 30, ofLocalhost)),
  }
}

function inFolder<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-certificates-'))
  try {
    return work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function rootPair(folder: string, subject: string, days = 300): KeyPair {
  const uses = 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'
  return selfSignedPair(folder, subject, days, [uses])
}

function selfSignedPair(
  folder: string,
  subject: string,
  days: number,
  extensions: string[],
): KeyPair {
  const request = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days ${days}`
  const args = request.split(' ')
  const files = ['-keyout', 'root.key', '-out', 'root.pem']
  const added = extensions.flatMap((one) => ['-addext', one])
  execFileSync('openssl', [...args, '-subj', subject, ...files, ...added], {
    cwd: folder,
    stdio: 'ignore',
  })
  const [key, cert] = ['root.key', 'root.pem'].map((name) =>
    readFileSync(join(folder, name), 'utf8'),
  )
  return { key: key as string, cert: cert as string }
}

function keyArgs(key: string, out: string): string[] {
  const [kind = '', size = ''] = key.split(':')
  if (kind === 'ec') {
    return ['genpkey', '-algorithm', 'EC', '-pkeyopt', `ec_paramgen_curve:${size}`, '-out', out]
  }
  if (kind === 'rsa') {
    // Large keys of more primes are generated much faster and behave the same.
    const primes = Number(size) > 4096 ? ['-pkeyopt', 'rsa_keygen_primes:5'] : []
    const bits = ['-pkeyopt', `rsa_keygen_bits:${size}`]
    return ['genpkey', '-algorithm', 'RSA', ...bits, ...primes, '-out', out]
  }
  return ['genpkey', '-algorithm', kind, '-out', out]
}

const LOCAL = 'DNS:localhost,IP:127.0.0.1'

function extensionsOf({ names = LOCAL, ca = false, extensions = [] }: IssueOptions): string {
  const lines = [
    `basicConstraints=critical,CA:${ca ? 'TRUE' : 'FALSE'}`,
    'subjectKeyIdentifier=hash',
    'authorityKeyIdentifier=keyid',
    ...(ca ? ['keyUsage=critical,keyCertSign,cRLSign,digitalSignature'] : []),
    ...(names === 'none'
      ? []
      : [names.length > 1000 ? 'subjectAltName=@names' : `subjectAltName=${names}`]),
    ...extensions,
  ]
  const section = names
    .split(',')
    .map((name, at) => name.replace(/^(\w+):/, `$1.${at + 1}=`))
    .join('\n')
  return `[own]\n${lines.join('\n')}\n${names.length > 1000 ? `[names]\n${section}\n` : ''}`
}

const CONFIGURATION = `
[ca]
default_ca = own
[own]
database = index.txt
serial = serial
crlnumber = crlnumber
new_certs_dir = .
certificate = ca.pem
private_key = ca.key
default_md = sha256
default_crl_days = 7
unique_subject = no
policy = any
[any]
commonName = optional
organizationName = optional
`

/** YYYYMMDDHHMMSSZ, so many days from now. */
function asn1Time(days: number): string {
  const iso = new Date(Date.now() + days * 86_400_000).toISOString()
  return `${iso.replaceAll(/[-:T]/g, '').slice(0, 14)}Z`
}
