// Encrypts an agent's files under its API key, so that a copy of the disk alone reveals nothing. Decryption never
// throws: damaged data, and data under another key, count as missing.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Encrypts under one location's key. */
export interface AgentCipher {
  /** Identifies a key without revealing it; fit for a file name. */
  readonly fingerprint: string
  /** AES-256-GCM under a fresh nonce. `about` has to be the same when it is opened. */
  encrypt(bytes: Buffer, about: string): Buffer
  /** The same, of what is long, piece by piece. */
  encryptPieces(pieces: AsyncIterable<Buffer>, about: string): AsyncIterable<Buffer>
  /** Undefined for what was encrypted under another key or about something else, or was changed since. */
  decrypt(encrypted: Buffer, about: string): Buffer | undefined
  /** A key of its own for one file that holds many pieces. `salt`: SALT_BYTES random bytes stored with it. */
  ofFile(salt: Buffer): FileCipher
}

/** Encrypts the numbered pieces of one file. No number may be used twice. */
export interface FileCipher {
  encrypt(bytes: Buffer, number: number, about: Buffer): Buffer
  decrypt(encrypted: Buffer, number: number, about: Buffer): Buffer | undefined
}

export const SALT_BYTES = 16
/** What a piece of a file grows by when it is encrypted. */
export const TAG_BYTES = 16

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
/** First byte of data encrypted on its own, so that a later version can distinguish the formats. */
const FORMAT = Buffer.from([1])

/** Makes the cipher of a key. HKDF (RFC 5869) gives each purpose a key of its own. */
export function createAgentCipher(apiKey: string): AgentCipher {
  const derive = (salt: Buffer, purpose: string, bytes: number) =>
    Buffer.from(hkdfSync('sha256', apiKey, salt, `vedette agent ${purpose}`, bytes))
  const none = Buffer.alloc(0)
  const key = derive(none, 'seal', 32)
  return {
    fingerprint: derive(none, 'fingerprint', 6).toString('hex'),
    encrypt(bytes, about) {
      const nonce = randomBytes(NONCE_BYTES)
      return Buffer.concat([FORMAT, nonce, encrypt(key, nonce, bytes, Buffer.from(about))])
    },
    async *encryptPieces(pieces, about) {
      const nonce = randomBytes(NONCE_BYTES)
      yield Buffer.concat([FORMAT, nonce])
      const cipher = createCipheriv(ALGORITHM, key, nonce)
      cipher.setAAD(Buffer.from(about))
      for await (const piece of pieces) yield cipher.update(piece)
      yield Buffer.concat([cipher.final(), cipher.getAuthTag()])
    },
    decrypt(encrypted, about) {
      if (encrypted[0] !== FORMAT[0]) return undefined
      const nonce = encrypted.subarray(1, 1 + NONCE_BYTES)
      return decrypt(key, nonce, encrypted.subarray(1 + NONCE_BYTES), Buffer.from(about))
    },
    ofFile: (salt) => fileCipher(derive(salt, 'file', 32)),
  }
}

function fileCipher(key: Buffer): FileCipher {
  return {
    encrypt: (bytes, number, about) => encrypt(key, nonceOf(number), bytes, about),
    decrypt: (encrypted, number, about) => decrypt(key, nonceOf(number), encrypted, about),
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

function decrypt(key: Buffer, nonce: Buffer, encrypted: Buffer, about: Buffer): Buffer | undefined {
  const end = encrypted.length - TAG_BYTES
  if (end < 0 || nonce.length !== NONCE_BYTES) return undefined
  try {
    const decipher = createDecipheriv(ALGORITHM, key, nonce)
    decipher.setAAD(about)
    decipher.setAuthTag(encrypted.subarray(end))
    return Buffer.concat([decipher.update(encrypted.subarray(0, end)), decipher.final()])
  } catch {
    return undefined
  }
}
