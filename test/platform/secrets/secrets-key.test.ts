// Aim: only their key decrypts secrets, and a platform never starts with another key than that of its database.
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createCipher, DecryptionError } from '../../../src/platform/secrets/cipher.ts'
import { ensureCipher, SecretsKeyError } from '../../../src/platform/secrets/secrets-key.ts'
import { knownFault } from '../../../src/platform/run-platform.ts'
import { createTestDatabase } from '../../support/database/database.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KEY = 'k'.repeat(32)

describe('a cipher', () => {
  const cipher = createCipher(KEY)

  test.each(['', 'x', '\u{1F6A8}', 'long '.repeat(100_000)])(
    'decrypts what it encrypted',
    (text) => {
      const encrypted = cipher.encrypt(text)
      expect(encrypted).toMatch(/^s1\.[\w-]+$/)
      expect(cipher.decrypt(encrypted)).toBe(text)
      expect(cipher.encrypt(text)).not.toBe(encrypted)
      expect(createCipher(KEY).decrypt(encrypted)).toBe(text)
    },
  )

  test('does not decrypt text of another key, changed text, or plain text', () => {
    const encrypted = cipher.encrypt('text')
    expect(() => createCipher(`${KEY}x`).decrypt(encrypted)).toThrow(DecryptionError)
    const bytes = Buffer.from(encrypted.slice(3), 'base64url')
    for (const at of bytes.keys()) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(() => cipher.decrypt(`s1.${changed.toString('base64url')}`)).toThrow(DecryptionError)
    }
    for (const bad of ['', 's1.', 'text', encrypted.slice(3), encrypted.slice(0, -8)]) {
      expect(() => cipher.decrypt(bad)).toThrow(DecryptionError)
    }
  })

  test('has a fingerprint that distinguishes keys', () => {
    expect(createCipher(KEY).fingerprint).toEqual(cipher.fingerprint)
    expect(createCipher(`${KEY}x`).fingerprint).not.toEqual(cipher.fingerprint)
    expect(cipher.fingerprint.toString()).not.toContain(KEY)
  })
})

describe('the key of a database', () => {
  const start = async () => {
    const { database, drop } = await createTestDatabase()
    onTestFinished(drop)
    return (dataDir: string, secretsKey?: string) => ensureCipher(database, { dataDir, secretsKey })
  }
  const folderWith = (key: string) => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'secrets.key'), key)
    return folder
  }

  test('is created once, readable only by its owner, and found again', async () => {
    const ensure = await start()
    const folder = temporaryFolder()
    const ciphers = await Promise.all([ensure(folder), ensure(folder), ensure(folder)])
    const path = join(folder, 'secrets.key')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const given = await ensure(temporaryFolder(), readFileSync(path, 'utf8').trim())
    for (const one of ciphers) expect(one.decrypt(given.encrypt('text'))).toBe('text')
  })

  test.each([
    ['missing: it is brought back, or given', temporaryFolder, undefined],
    ['another SECRETS_KEY', temporaryFolder, 'o'.repeat(32)],
    ['another file', () => folderWith('o'.repeat(32)), undefined],
    ['an empty file', () => folderWith(''), undefined],
  ])('is not %s: exit code 2 with what to do', async (_sentence, folder, key) => {
    const ensure = await start()
    await ensure(temporaryFolder(), KEY)
    const error: unknown = await ensure(folder(), key).catch((failure: unknown) => failure)
    expect(error).toBeInstanceOf(SecretsKeyError)
    expect(knownFault(error)?.exitCode).toBe(2)
    await ensure(temporaryFolder(), KEY)
  })
})
