// Certificates made at run time by the openssl command: test authorities, the certificates that they issue, and their
// statements about revocation (OCSP responses and lists).
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
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
  /** `rsa:2048`, `ec:P-256` (the default) or `ed25519`. */
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

/** One authority; its files are in a folder of their own. */
export class LocalAuthority {
  readonly pair: KeyPair
  readonly #root: string
  readonly #folder: string

  constructor(root: string, pair: KeyPair) {
    this.#root = root
    this.#folder = mkdtempSync(join(root, 'authority-'))
    this.pair = pair
    const files = { 'ca.pem': pair.cert, 'ca.key': pair.key, 'index.txt': '', crlnumber: '01' }
    this.#write({ ...files, serial: '1000', 'ca.cnf': CONFIGURATION })
  }

  /** An authority of this certificate and key. */
  as(pair: KeyPair): LocalAuthority {
    return new LocalAuthority(this.#root, pair)
  }

  issue(options: IssueOptions = {}): KeyPair {
    const { subject = '/CN=leaf.test', fromDays = -1, toDays = 60, digest = 'sha256' } = options
    const key = newKey(options.key ?? 'ec:P-256')
    const plain = { type: 'pkcs8', format: 'pem' } as const
    this.#write({ 'leaf.key': key.export(plain), 'ext.cnf': extensionsOf(options) })
    this.#openssl(['req', '-new', '-key', 'leaf.key', '-subj', subject, '-out', 'leaf.csr'])
    const dates = ['-startdate', asn1Time(fromDays), '-enddate', asn1Time(toDays)]
    const ca = 'ca -batch -notext -preserveDN -config ca.cnf -extfile ext.cnf -extensions own'
    const files = ['-in', 'leaf.csr', '-out', 'leaf.pem', '-md', digest]
    this.#openssl([...ca.split(' '), ...files, ...dates])
    const { passphrase } = options
    const lock = passphrase === undefined ? {} : { cipher: 'aes-256-cbc', passphrase }
    return {
      cert: this.#read('leaf.pem').toString(),
      key: key.export({ ...plain, ...lock }) as string,
    }
  }

  revoke({ cert }: KeyPair, reason = 'keyCompromise'): void {
    this.#write({ 'revoked.pem': cert })
    this.#openssl(['ca', '-config', 'ca.cnf', '-revoke', 'revoked.pem', '-crl_reason', reason])
  }

  /** The list of revoked certificates, DER. */
  list(args: string[] = ['-crldays', '7']): Buffer {
    this.#openssl(['ca', '-config', 'ca.cnf', '-gencrl', '-out', 'list.pem', ...args])
    this.#openssl('crl -in list.pem -outform DER -out list.der'.split(' '))
    return this.#read('list.der')
  }

  /** The response to a request (DER), or to one about this certificate; signed by a delegated responder if given. */
  ocsp(request: Buffer | KeyPair, responder = this.pair): Buffer {
    this.#write({ 'signer.pem': responder.cert, 'signer.key': responder.key })
    if (Buffer.isBuffer(request)) this.#write({ 'request.der': request })
    else {
      this.#write({ 'asked.pem': request.cert })
      const about = 'ocsp -issuer ca.pem -cert asked.pem -no_nonce -reqout request.der'
      this.#openssl(about.split(' '))
    }
    const signed = 'ocsp -index index.txt -CA ca.pem -rsigner signer.pem -rkey signer.key'
    const files = '-reqin request.der -respout response.der -nmin 60'
    this.#openssl(`${signed} ${files}`.split(' '))
    return this.#read('response.der')
  }

  #openssl(args: string[]): void {
    execFileSync('openssl', args, { cwd: this.#folder, stdio: ['ignore', 'pipe', 'pipe'] })
  }

  #write(files: Record<string, string | Buffer>): void {
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(this.#folder, name), content)
    }
  }

  #read(name: string): Buffer {
    return readFileSync(join(this.#folder, name))
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
  const root = new LocalAuthority(folder, rootPair('/O=Vedette Tests/CN=Test Root'))
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
    stranger: () => new LocalAuthority(folder, rootPair('/CN=Unknown Root')),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** A certificate authority that nobody trusts by default. */
export interface Authority {
  ca: string
  issue(options?: IssueOptions): KeyPair
  /** A certificate that is signed by itself. */
  selfSigned(extensions?: string[]): KeyPair
}

/** Makes an authority without intermediates; its files live as long as the call that needs them. */
export function createAuthority(): Authority {
  const ca = rootPair('/CN=Test Authority', 30)
  const ofLocalhost = ['basicConstraints=critical,CA:FALSE', `subjectAltName=${LOCAL}`]
  return {
    ca: ca.cert,
    issue(options) {
      const folder = mkdtempSync(join(tmpdir(), 'vedette-certificates-'))
      try {
        return new LocalAuthority(folder, ca).issue({ toDays: 30, ...options })
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
    selfSigned: (extensions = []) =>
      selfSignedPair('/CN=localhost', 30, [...ofLocalhost, ...extensions]),
  }
}

const CA_USES = 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'

function rootPair(subject: string, days = 300): KeyPair {
  return selfSignedPair(subject, days, [CA_USES])
}

function selfSignedPair(subject: string, days: number, extensions: string[]): KeyPair {
  const request = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days ${days} -keyout -`
  const added = extensions.flatMap((one) => ['-addext', one])
  const both = execFileSync('openssl', [...request.split(' '), '-subj', subject, ...added], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const start = both.indexOf('-----BEGIN CERTIFICATE-----')
  return { key: both.slice(0, start), cert: both.slice(start) }
}

function newKey(of: string): KeyObject {
  const [kind, size = ''] = of.split(':')
  if (kind === 'rsa') return generateKeyPairSync('rsa', { modulusLength: Number(size) }).privateKey
  if (kind === 'ec') return generateKeyPairSync('ec', { namedCurve: size }).privateKey
  return generateKeyPairSync('ed25519').privateKey
}

const LOCAL = 'DNS:localhost,IP:127.0.0.1'

function extensionsOf({ names = LOCAL, ca = false, extensions = [] }: IssueOptions): string {
  const alternatives = names === 'none' ? [] : names.split(',')
  const lines = [
    '[own]',
    `basicConstraints=critical,CA:${ca ? 'TRUE' : 'FALSE'}`,
    'subjectKeyIdentifier=hash',
    'authorityKeyIdentifier=keyid',
    ...(ca ? [CA_USES] : []),
    ...(names === 'none' ? [] : ['subjectAltName=@names']),
    ...extensions,
    '[names]',
    ...alternatives.map((name, at) => name.replace(/^(\w+):/, `$1.${at + 1}=`)),
  ]
  return lines.join('\n')
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
