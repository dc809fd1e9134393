"""The numbers that Word shows before headings and list items, which a .docx keeps only as rules: '2.1', '(a)', 'iv.'.

They are computed as Word does and written into the text, because people ask for 'section 4.2'.
"""
