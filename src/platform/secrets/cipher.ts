// Encrypts the secrets in the database, so that a copy of the database alone does not reveal them.
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'

export interface Cipher {
  /** AES-256-GCM under a fresh nonce; the same text is encrypted otherwise each time. */
  encrypt(text: string): string
  /** Throws DecryptionError for text that was not encrypted under this key, or was changed since. */
  decrypt(encrypted: string): string
  /** Distinguishes keys without revealing them. */
  readonly fingerprint: Buffer
}

/** An encrypted text cannot be decrypted with this key. */
export class DecryptionError extends Error {
  readonly code = 'SEAL'

  constructor() {
    super('a secret in the database was encrypted under another SECRETS_KEY, or is damaged')
    this.name = 'DecryptionError'
  }
}

const ALGORITHM = 'aes-256-gcm'
const PREFIX = 's1.'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Makes a cipher from a secret of any length; its strength is that of the secret. */
export function createCipher(secret: string): Cipher {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'vedette sealed columns', 32))
  return {
    fingerprint: createHash('sha256').update('vedette fingerprint').update(key).digest(),
    encrypt(text) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(ALGORITHM, key, nonce)
      const parts = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return PREFIX + Buffer.concat(parts).toString('base64url')
    },
    decrypt(encrypted) {
      const bytes = Buffer.from(encrypted.slice(PREFIX.length), 'base64url')
      if (!encrypted.startsWith(PREFIX) || bytes.length < NONCE_BYTES + TAG_BYTES) {
        throw new DecryptionError()
      }
      const end = bytes.length - TAG_BYTES
      try {
        const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES))
        decipher.setAuthTag(bytes.subarray(end))
        const text = decipher.update(bytes.subarray(NONCE_BYTES, end), undefined, 'utf8')
        return text + decipher.final('utf8')
      } catch {
        throw new DecryptionError()
      }
    },
  }
}
