// Seals what an agent keeps on disk under its API key, so that a copy of the disk alone gives nothing away.
// Opening never throws: what is damaged or was sealed under another key is simply not there.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Seals under one location's key. */
export interface AgentSeal {
  /** Tells keys apart without giving them away; fit for a name of a file. */
  readonly fingerprint: string
  /** AES-256-GCM under a fresh nonce. `about` has to be the same when it is opened. */
  seal(bytes: Buffer, about: string): Buffer
  /** The same, of what is long, piece by piece. */
  sealPieces(pieces: AsyncIterable<Buffer>, about: string): AsyncIterable<Buffer>
  /** Undefined for what was sealed under another key or about something else, or was changed since. */
  open(sealed: Buffer, about: string): Buffer | undefined
  /** A key of its own for one file that holds many pieces. `salt`: SALT_BYTES random bytes kept with it. */
  ofFile(salt: Buffer): FileSeal
}

/** Seals the numbered pieces of one file. No number may be used twice. */
export interface FileSeal {
  seal(bytes: Buffer, number: number, about: Buffer): Buffer
  open(sealed: Buffer, number: number, about: Buffer): Buffer | undefined
}

export const SALT_BYTES = 16
/** What a piece of a file grows by when it is sealed. */
export const TAG_BYTES = 16

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
/** First byte of everything sealed by itself, for a later version to tell its own ways from this one. */
const FORMAT = Buffer.from([1])

/** Makes the seal of a key. HKDF (RFC 5869) gives each purpose a key of its own. */
export function createAgentSeal(apiKey: string): AgentSeal {
  const derive = (salt: Buffer, purpose: string, bytes: number) =>
    Buffer.from(hkdfSync('sha256', apiKey, salt, `vedette agent ${purpose}`, bytes))
  const none = Buffer.alloc(0)
  const key = derive(none, 'seal', 32)
  return {
    fingerprint: derive(none, 'fingerprint', 6).toString('hex'),
    seal(bytes, about) {
      const nonce = randomBytes(NONCE_BYTES)
      return Buffer.concat([FORMAT, nonce, encrypt(key, nonce, bytes, Buffer.from(about))])
    },
    async *sealPieces(pieces, about) {
      const nonce = randomBytes(NONCE_BYTES)
      yield Buffer.concat([FORMAT, nonce])
      const cipher = createCipheriv(ALGORITHM, key, nonce)
      cipher.setAAD(Buffer.from(about))
      for await (const piece of pieces) yield cipher.update(piece)
      yield Buffer.concat([cipher.final(), cipher.getAuthTag()])
    },
    open(sealed, about) {
      if (sealed[0] !== FORMAT[0]) return undefined
      const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
      return decrypt(key, nonce, sealed.subarray(1 + NONCE_BYTES), Buffer.from(about))
    },
    ofFile: (salt) => fileSeal(derive(salt, 'file', 32)),
  }
}

function fileSeal(key: Buffer): FileSeal {
  return {
    seal: (bytes, number, about) => encrypt(key, nonceOf(number), bytes, about),
    open: (sealed, number, about) => decrypt(key, nonceOf(number), sealed, about),
  }
}

function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES)
  nonce.writeUIntBE(number, NONCE_BYTES - 6, 6)
  return nonce
}

function encrypt(key: Buffer, nonce: Buffer, bytes: Buffer, about: Buffer): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, nonce)
  cipher.setAAD(about)
  return Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
}

function decrypt(key: Buffer, nonce: Buffer, sealed: Buffer, about: Buffer): Buffer | undefined {
  const end = sealed.length - TAG_BYTES
  if (end < 0 || nonce.length !== NONCE_BYTES) return undefined
  try {
    const decipher = createDecipheriv(ALGORITHM, key, nonce)
    decipher.setAAD(about)
    decipher.setAuthTag(sealed.subarray(end))
    return Buffer.concat([decipher.update(sealed.subarray(0, end)), decipher.final()])
  } catch {
    return undefined
  }
}
