// Aim: what reads certificates, OCSP responses, revocation lists and first messages of servers agrees with an
// independent reader, and takes any garbage and any flipped bit without an exception and without a false "good".
import { X509Certificate } from 'node:crypto'
import * as fc from 'fast-check'
import { OCSPRequest } from 'pkijs'
import { afterAll, describe, expect, test } from 'vitest'
import {
  type CertificateStructure,
  readCertificate,
  timestampList,
} from '../../../src/network/tls/certificate-structure.ts'
import {
  ocspRequest,
  readOcspResponse,
  type Subject,
} from '../../../src/monitors/ssl/revocation/ocsp-message.ts'
import {
  findRevoked,
  readRevocationList,
  verifyList,
} from '../../../src/monitors/ssl/revocation/list.ts'
import { Unusable } from '../../../src/monitors/ssl/revocation/signed-bytes.ts'
import { DerFault } from '../../../src/network/tls/der.ts'
import { readServerHello } from '../../../src/monitors/ssl/versions.ts'
import { createPki } from '../../support/network/certificates.ts'

const pki = createPki()
afterAll(() => pki[Symbol.dispose]())

const never = new AbortController().signal
const DAY_MS = 86_400_000

function subjectOf(pem: string): Subject {
  const issuer = new X509Certificate(pki.intermediate.pair.cert)
  return {
    certificate: readCertificate(new X509Certificate(pem).raw) as CertificateStructure,
    issuer,
    issuerStructure: readCertificate(issuer.raw) as CertificateStructure,
  }
}

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
  return copy
}

/** What reading comes to; undefined where it is refused as unusable. */
async function outcomeOf<T>(read: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof Unusable || error instanceof DerFault) return undefined
    throw error
  }
}

/** Garbage, or the bytes with one bit changed. */
const bentFrom = (bytes: Buffer) =>
  fc.oneof(
    fc.uint8Array({ maxLength: 400 }).map((array) => Buffer.from(array)),
    { arbitrary: fc.nat(bytes.length * 8 - 1).map((bit) => flipped(bytes, bit)), weight: 9 },
  )

describe('a certificate', () => {
  const extensions = [
    'tlsfeature=status_request',
    'authorityInfoAccess=caIssuers;URI:http://a.test/ca,OCSP;URI:http://a.test/ocsp',
    'crlDistributionPoints=URI:http://a.test/1.crl,URI:http://a.test/2.crl',
  ]
  const { raw } = new X509Certificate(pki.intermediate.issue({ extensions }).cert)

  test('is read as it was made', () => {
    expect(readCertificate(raw)).toMatchObject({
      mustStaple: true,
      ocspUrls: ['http://a.test/ocsp'],
      crlUrls: ['http://a.test/1.crl', 'http://a.test/2.crl'],
      timestamps: [],
    })
  })

  test('of any bits is read or refused', () => {
    fc.assert(
      fc.property(bentFrom(raw), (bent) => void readCertificate(bent)),
      { numRuns: 2000 },
    )
    fc.assert(
      fc.property(fc.nat(raw.length - 1), (length) => {
        expect(readCertificate(raw.subarray(0, length))).toBeUndefined()
      }),
    )
  })

  test('lists of timestamps of any bits are read as far as they go', () => {
    const one = Buffer.alloc(47)
    one.writeBigUInt64BE(1_700_000_000_000n, 33)
    const list = Buffer.concat([Buffer.from([0, 49, 0, 47]), one])
    expect(timestampList(list)).toEqual([
      { logId: '00'.repeat(32), at: '2023-11-14T22:13:20.000Z' },
    ])
    fc.assert(fc.property(bentFrom(list), (bent) => void timestampList(bent)))
  })
})

describe('OCSP', () => {
  const good = pki.intermediate.issue()
  const revoked = pki.intermediate.issue()
  pki.intermediate.revoke(revoked)
  const responses = {
    good: pki.intermediate.ocsp(good),
    revoked: pki.intermediate.ocsp(revoked),
  }

  test('a request is read by others as it was meant', () => {
    const subject = subjectOf(good.cert)
    const nonce = Buffer.alloc(16, 7)
    const request = OCSPRequest.fromBER(new Uint8Array(ocspRequest(subject, nonce)))
    const [asked] = request.tbsRequest.requestList
    const serial = Buffer.from(asked?.reqCert.serialNumber.valueBlock.valueHexView ?? [])
    expect(serial.toString('hex')).toBe(subject.certificate.serial.toString('hex'))
    expect(request.tbsRequest.requestExtensions?.[0]?.extnID).toBe('1.3.6.1.5.5.7.48.1.2')
  })

  test('a response holds from its beginning to its end', async () => {
    const at = (laterMs: number) =>
      readOcspResponse(responses.good, subjectOf(good.cert), Date.now() + laterMs)
    expect(await at(0)).toMatchObject({ status: 'good' })
    await expect(at(2 * DAY_MS)).rejects.toThrow('stale')
    await expect(at(-2 * DAY_MS)).rejects.toThrow(Unusable)
  })

  test('a response for another nonce is not ours', async () => {
    const subject = subjectOf(good.cert)
    const theirs = pki.intermediate.ocsp(ocspRequest(subject, Buffer.alloc(16, 1)))
    const read = (nonce: Buffer) => readOcspResponse(theirs, subject, Date.now(), nonce)
    await expect(read(Buffer.alloc(16, 2))).rejects.toThrow('nonce')
    expect(await read(Buffer.alloc(16, 1))).toMatchObject({ nonce: 'repeated' })
  })

  test('a responder whose authorisation has ended signs nothing', async () => {
    const extensions = ['extendedKeyUsage=OCSPSigning']
    const responder = pki.intermediate.issue({ extensions, fromDays: -9, toDays: -2 })
    const response = pki.intermediate.ocsp(good, responder)
    const reading = readOcspResponse(response, subjectOf(good.cert), Date.now())
    await expect(reading).rejects.toThrow('not signed')
  })

  test.each([
    ['good', good],
    ['revoked', revoked],
  ] as const)('no bits make a %s certificate another', async (which, { cert }) => {
    const subject = subjectOf(cert)
    await fc.assert(
      fc.asyncProperty(bentFrom(responses[which]), async (bent) => {
        const read = () => readOcspResponse(bent, subject, Date.now())
        // Bits of what nobody signed, the certificates that come with it, may be what they like.
        expect((await outcomeOf(read))?.status ?? which).toBe(which)
      }),
      { numRuns: 750 },
    )
  })
})

describe('a revocation list', () => {
  const good = pki.intermediate.issue()
  const revoked = pki.intermediate.issue()
  pki.intermediate.revoke(revoked, 'superseded')
  const der = pki.intermediate.list()
  const subjects = [subjectOf(good.cert), subjectOf(revoked.cert)] as const

  test('of a hundred thousand entries is looked through in slices', async () => {
    const list = readRevocationList(der)
    const time = Buffer.from('170d3230303130313030303030305a', 'hex')
    const one = Buffer.concat([
      Buffer.from([0x30, 7 + time.length, 2, 5, 0, 0xaa, 0xbb, 0xcc, 0xdd]),
      time,
    ])
    const many = Buffer.concat(Array<Buffer>(100_000).fill(one))
    const long = {
      ...list,
      entries: { bytes: many, tag: 0x30, from: 0, start: 0, end: many.length },
    }
    let turns = 0
    const ticking = setInterval(() => turns++, 0)
    expect(await findRevoked(long, subjects[0].certificate, never)).toBeUndefined()
    clearInterval(ticking)
    expect(turns).toBeGreaterThan(0)
    const searching = findRevoked(long, subjects[0].certificate, AbortSignal.abort(new Error('no')))
    await expect(searching).rejects.toThrow('no')
  })

  test('of any bits is read or refused, and says nothing false', async () => {
    const [, subject] = subjects
    await fc.assert(
      fc.asyncProperty(bentFrom(der), async (bent) => {
        const found = await outcomeOf(async () => {
          const list = readRevocationList(bent)
          await verifyList(list, subject, Date.now())
          return (await findRevoked(list, subject.certificate, never)) ?? 'not revoked'
        })
        expect(found).not.toBe('not revoked')
      }),
      { numRuns: 1500 },
    )
  })
})

describe('the first message of a server', () => {
  const hello = (version: number, extensions = '') => {
    const more = extensions.length / 2
    const body = `0303${'ab'.repeat(32)}00130100${more === 0 ? '' : hex16(more) + extensions}`
    const message = `0200${hex16(body.length / 2)}${body}`
    return Buffer.from(`16${hex16(version)}${hex16(message.length / 2)}${message}`, 'hex')
  }
  const hex16 = (value: number) => value.toString(16).padStart(4, '0')

  test.each<[string, Buffer, number, unknown]>([
    ['of the version asked for', hello(0x0303), 0x0303, {}],
    ['of TLS 1.3, which says so in an extension', hello(0x0303, '002b00020304'), 0x0304, {}],
    ['that is an alert', Buffer.from('15030300020246', 'hex'), 0x0303, 'refused'],
    ['that is cut off', hello(0x0303).subarray(0, 20), 0x0303, undefined],
    ['in empty records', Buffer.from('1603030000'.repeat(3), 'hex'), 0x0303, 'refused'],
    ['in a record that is too long', Buffer.from('160303ffff', 'hex'), 0x0303, 'refused'],
  ])('%s', (_, answer, version, expected) => {
    expect(readServerHello(answer, version)).toEqual(expected)
  })

  test('of any bits', () => {
    const bits = bentFrom(hello(0x0303, '002b00020304001200020000'))
    const versions = fc.constantFrom(0x0301, 0x0303, 0x0304)
    const answers = ['refused', undefined, expect.any(Object)]
    fc.assert(
      fc.property(bits, versions, (bent, version) => {
        expect(answers).toContainEqual(readServerHello(bent, version))
      }),
    )
  })
})
