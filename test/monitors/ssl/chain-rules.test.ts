// Aim: the rule that a chain is said to break is one that it breaks, whatever kinds and numbers of names it holds.
import { X509Certificate } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { brokenRule, notAnAuthority } from '../../../src/monitors/ssl/chain-rules.ts'
import { createPki, type IssueOptions } from '../../support/network/certificates.ts'

const pki = createPki()
afterAll(() => pki[Symbol.dispose]())

const issued = (options: IssueOptions) => new X509Certificate(pki.root.issue(options).cert)
const authority = (nameConstraints: string) =>
  issued({ ca: true, names: 'none', extensions: [`nameConstraints=critical,${nameConstraints}`] })
const broken = (...chain: X509Certificate[]) => brokenRule('UNSPECIFIED', chain)

test('a name of a kind that is not compared is not blamed', () => {
  const leaf = issued({ names: 'email:me@example.com,DNS:evil.test' })
  const narrow = authority('permitted;email:example.com,permitted;DNS:allowed.test')
  const found = broken(leaf, narrow)
  expect(found?.rule).toBe('permitted-names')
  expect(found?.message).toMatch(/evil\.test$/)
})

test('constraints of the server’s own certificate are not for itself', () => {
  const extensions = ['nameConstraints=critical,excluded;DNS:own.test']
  const leaf = issued({ names: 'DNS:own.test', extensions })
  expect(broken(leaf)).toBeUndefined()
  expect(broken(leaf, authority('excluded;DNS:own.test'))?.rule).toBe('excluded-names')
})

test('comparisons are bounded for the whole chain', () => {
  const hosts = Array.from({ length: 1000 }, (_, at) => `n${at}.test`)
  const leaf = issued({ names: hosts.map((host) => `DNS:${host}`).join(',') })
  const wide = authority(hosts.map((host) => `excluded;DNS:no.${host}`).join(','))
  const narrow = authority('excluded;DNS:n0.test')
  expect(broken(leaf, wide, narrow)?.rule).toBe('excluded-names')
  expect(broken(leaf, wide, wide, narrow)).toBeUndefined()
})

test('a certificate without a subject is named all the same', () => {
  expect(notAnAuthority(issued({ subject: '/' })).certificate).not.toBe('')
})
