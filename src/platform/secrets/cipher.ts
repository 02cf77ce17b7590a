// Seals what the database keeps of secrets, so that a copy of the database alone gives none of them away.
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'

/** Seals texts and opens them again. */
export interface Sealer {
  /** AES-256-GCM under a fresh nonce; the same text gives another seal each time. */
  seal(text: string): string
  /** Throws SealError for what was not sealed under this key, or was changed since. */
  open(sealed: string): string
  /** Tells keys apart without giving them away. */
  readonly fingerprint: Buffer
}

/** A sealed text cannot be opened with this key. */
export class SealError extends Error {
  readonly code = 'SEAL'

  constructor() {
    super('a secret in the database was sealed under another SECRETS_KEY, or is damaged')
    this.name = 'SealError'
  }
}

const ALGORITHM = 'aes-256-gcm'
const PREFIX = 's1.'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Makes a sealer from a secret of any length; its strength is that of the secret. */
export function createSealer(secret: string): Sealer {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'vedette sealed columns', 32))
  return {
    fingerprint: createHash('sha256').update('vedette fingerprint').update(key).digest(),
    seal(text) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(ALGORITHM, key, nonce)
      const parts = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return PREFIX + Buffer.concat(parts).toString('base64url')
    },
    open(sealed) {
      const bytes = Buffer.from(sealed.slice(PREFIX.length), 'base64url')
      if (!sealed.startsWith(PREFIX) || bytes.length < NONCE_BYTES + TAG_BYTES) {
        throw new SealError()
      }
      const end = bytes.length - TAG_BYTES
      try {
        const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES))
        decipher.setAuthTag(bytes.subarray(end))
        const text = decipher.update(bytes.subarray(NONCE_BYTES, end), undefined, 'utf8')
        return text + decipher.final('utf8')
      } catch {
        throw new SealError()
      }
    },
  }
}
